"""Tests of dtype inference: functions are generalised per call in dtypes."""

import numpy as np
import pytest

import structir
from structir.errors import StructInfoError, StructIRError
from structir.ir.module import IRModule
from tests.solver.test_unifying_calls import module, params_of, parsed

HELPER = """
@R.function
def helper(x: R.Tensor, w: R.Tensor):
    y = R.exp(R.multiply(x, w))
    return (y, R.less(y, w))
"""
PAIR = 'a: R.Tensor((2, 3), "float32"), b: R.Tensor((4, 5), "float16")'
SIZES = {"a": ((2, 3), "float32"), "b": ((4, 5), "float16")}


def main(params: str, *lines: str, refine: str = "") -> str:
    body = "".join([f"\n    {line}" for line in lines])
    return f"@R.function{refine}\ndef main({params}):\n    cls = M{body}"


def assert_inferred_dtypes_hold(program: IRModule, *arguments: np.ndarray) -> None:
    """Checks that the inferred StructInfo of each result is that of a run, with all dtypes."""
    info = structir.infer(program)["main"].ret_struct_info
    for backend in (program, structir.infer(program)):
        results = structir.interpret(backend, "main", *arguments)
        for field, result in zip(info.fields, results, strict=True):
            assert (field.dims, field.dtype) == (result.shape, result.dtype.name)


def arrays(names: str) -> list[np.ndarray]:
    return [np.ones(*SIZES[name]) for name in names]


def test_each_call_has_the_dtype_and_shape_of_its_arguments() -> None:
    lines = "p = cls.helper(a, a)", "q = cls.helper(b, b)", "return (p[0], p[1], q[0], q[1])"
    program = parsed(module(HELPER, main(PAIR, *lines)))
    dtypes = [field.dtype for field in structir.infer(program)["main"].ret_struct_info.fields]
    assert dtypes == ["float32", "bool", "float16", "bool"]
    assert_inferred_dtypes_hold(program, *arrays("ab"))
    params_of(program.script())


def test_dtypes_pass_through_calls_of_calls_branches_and_casts() -> None:
    outer = """
@R.function
def outer(x: R.Tensor, c: R.Tensor((), "bool")):
    cls = M
    n = T.int64()
    m = T.int64()
    p = cls.helper(x, x)
    if c:
        z = R.negative(p[0])
    else:
        z = p[0]
    q = R.match_cast(z, R.Tensor((n, m)))
    return q
"""
    lines = "p = cls.outer(a, c)", "q = cls.outer(b, c)", "return (p, q)"
    program = parsed(module(HELPER, outer, main(f'{PAIR}, c: R.Tensor((), "bool")', *lines)))
    dtypes = [field.dtype for field in structir.infer(program)["main"].ret_struct_info.fields]
    assert dtypes == ["float32", "float16"]
    results = structir.interpret(program, "main", *arrays("ab"), np.array(True))
    assert [result.dtype.name for result in results] == dtypes


def test_loop_has_the_dtypes_of_its_states_and_of_a_step() -> None:
    cell = """
@R.function
def cell(h: R.Tensor, x: R.Tensor):
    y = R.add(h, x)
    return (y, y, R.less(x, y))
"""
    lines = "r = R.scan(cls.cell, (h,), x)", "return (r[0], r[1], r[2])"
    params = 'h: R.Tensor((3,), "float16"), x: R.Tensor((2, 3), "float16")'
    program = parsed(module(cell, main(params, *lines)))
    arguments = np.ones(3, "float16"), np.ones((2, 3), "float16")
    assert_inferred_dtypes_hold(program, *arguments)


def test_call_whose_dtype_contradicts_the_callee_is_rejected() -> None:
    helper = """
@R.function
def helper(x: R.Tensor, w: R.Tensor((3,), "float32")):
    y = R.add(x, w)
    return y
"""
    params = 'a: R.Tensor((2, 3), "float16"), w: R.Tensor((3,), "float32")'
    program = parsed(module(helper, main(params, "p = cls.helper(a, w)", "return p")))
    with pytest.raises(StructInfoError, match="dtype"):
        structir.infer(program)


def test_recursive_function_is_inferred_from_its_annotation() -> None:
    recursive = """
@R.function
def rec(x: R.Tensor, c: R.Tensor((), "bool")) -> R.Tensor:
    cls = M
    if c:
        z = cls.rec(x, R.logical_not(c))
    else:
        z = R.exp(x)
    return z
"""
    params = 'a: R.Tensor((2, 3), "float16"), c: R.Tensor((), "bool")'
    program = parsed(module(recursive, main(params, "p = cls.rec(a, c)", "return p")))
    assert structir.infer(program)["main"].ret_struct_info.ndim in (None, 2)


@pytest.mark.parametrize("refine", ["", '(refine="signature")', '(refine="checks")'])
def test_cast_of_a_parameter_completes_its_dtype(refine: str) -> None:
    lines = 'y = R.match_cast(x, R.Tensor(ndim=2, dtype="float32"))', "z = R.exp(x)", "return z"
    text = module(HELPER, main("x: R.Tensor", *lines, refine=refine))
    assert params_of(text)[0].endswith('dtype="float32")')
    inferred = structir.infer(parsed(text))["main"]
    assert inferred.ret_struct_info.dtype == "float32"


def test_call_of_a_refining_function_infers_the_dtype_of_its_argument() -> None:
    helper = '@R.function\ndef helper(x: R.Tensor(("n", 4), "float32")):\n    return x'
    lines = "y = cls.helper(x)", "return y"
    text = module(helper, main("x: R.Tensor", *lines, refine='(refine="signature")'))
    assert params_of(text) == ['R.Tensor((d0, 4), dtype="float32")']


def test_cast_in_a_branch_leaves_the_dtype_of_the_parameter_open() -> None:
    lines = (
        "if c:",
        '    z = R.match_cast(x, R.Tensor((2,), "float32"))',
        "else:",
        '    z = R.zeros((2,), "float32")',
        "return z",
    )
    program = parsed(module(main('x: R.Tensor, c: R.Tensor((), "bool")', *lines)))
    assert structir.infer(program)["main"].params[0].struct_info.dtype is None


def outcome(program: IRModule, arguments: list[np.ndarray]) -> object:
    """Returns the dtype of the result of a run, or None for an error."""
    try:
        return structir.interpret(program, "main", *arguments).dtype.name
    except StructIRError:
        return None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("R.add(x, y)", "float32"),
        ("R.matmul(x, R.permute_dims(y))", "float32"),
        ("R.concat((x, y))", "float32"),
        ("R.where(x, y, y)", "bool"),
        ("R.where(R.less(y, y), x, y)", "float32"),
        ("R.einsum((x, y), 'ij,kj->ik')", "float32"),
        ("R.sum(R.add(R.split(x, 2, axis=1)[0], R.split(y, 2, axis=1)[1]))", "float32"),
        ("R.nn.layer_norm(y, x[0], x[0], axes=[-1])", "float32"),
        ("R.add(R.match_cast(x, R.Tensor((2, 4))), y)", "float32"),
        ("R.add(R.astype(x, 'float32'), y)", None),
        ("R.less(x, y)", None),
        ("R.take(y, x, axis=0)", None),
    ],
)
def test_inferred_dtype_of_a_parameter_accepts_what_a_run_accepts(
    value: str, expected: str | None
) -> None:
    value = value.replace("x[0]", "R.squeeze(R.split(x, 2, axis=0)[0], 0)")
    text = f"""
@R.function
def main(x: R.Tensor((2, 4)), y: R.Tensor((2, 4), "float32")):
    return {value}
"""
    program = parsed(text)
    inferred = structir.infer(program)
    assert inferred["main"].params[0].struct_info.dtype == expected
    assert structir.structural_equal(structir.infer(inferred), inferred)
    y = np.ones((2, 4), "float32")
    for dtype in ("float32", "float16", "int32", "int64", "bool"):
        x = np.zeros((2, 4), dtype)
        assert outcome(program, [x, y]) == outcome(inferred, [x, y])


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (' -> R.Tensor((2,), "float16")', "R.add(x, y)"),
        ("", 'R.match_cast(R.add(x, y), R.Tensor((2,), "float16"))'),
        ("", 'R.add(R.exp(R.add(x, y)), R.ones((2,), "float16"))'),
        (' -> R.Tensor((2,), "float16")', "cls.helper(x, y)"),
        ("", 'R.add(cls.helper(x, y), R.ones((2,), "float16"))'),
    ],
)
def test_a_dtype_of_a_result_completes_all_operands(declared: str, value: str) -> None:
    helper = "@R.function\ndef helper(x: R.Tensor, w: R.Tensor):\n    return R.multiply(x, w)"
    caller = f"@R.function\ndef main(x: R.Tensor((2,)), y: R.Tensor((2,))){declared}:\n    cls = M"
    program = parsed(module(helper, f"{caller}\n    return {value}"))
    inferred = structir.infer(program)
    assert [p.struct_info.dtype for p in inferred["main"].params] == ["float16"] * 2
    assert [p.struct_info.dtype for p in inferred["helper"].params] == [None] * 2
    assert structir.structural_equal(parsed(inferred.script()), inferred)


NARROWED = """
@R.function
def helper(x: R.Tensor):
    return R.add(x, R.ones((2,), "float32"))
"""


def test_argument_without_the_dtype_that_a_callee_requires_is_cast() -> None:
    lines = 'y = R.call_packed("f", x, sinfo_args=R.Tensor((2,)))', "return cls.helper(y)"
    inferred = structir.infer(parsed(module(NARROWED, main("x: R.Tensor((2,))", *lines))))
    assert inferred["helper"].params[0].struct_info.dtype == "float32"
    assert 'R.match_cast(y, R.Tensor((2,), dtype="float32"))' in inferred.script()
    assert structir.structural_equal(parsed(inferred.script()), inferred)
    assert structir.structural_equal(structir.infer(inferred), inferred)


def test_call_that_need_not_run_leaves_the_dtypes_of_its_callee_open() -> None:
    lines = "if c:", "    z = cls.helper(x)", "else:", '    z = R.ones((2,), "float32")', "return z"
    params = 'x: R.Tensor((2,), "int32"), c: R.Tensor((), "bool")'
    inferred = structir.infer(parsed(module(NARROWED, main(params, *lines))))
    result = structir.interpret(inferred, "main", np.ones(2, "int32"), np.array(False))
    assert result.dtype == np.float32


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('R.match_cast(x, R.Tensor((2,), "int32"))', "StructInfo mismatch"),
        ('R.add(x, R.ones((2,), "int32"))', "dtype mismatch"),
    ],
)
def test_contradictory_dtypes_are_rejected(value: str, message: str) -> None:
    params = 'x: R.Tensor((2,)), y: R.Tensor((2,), "float32")'
    with pytest.raises(StructInfoError, match=message):
        structir.infer(parsed(module(main(params, "z = R.add(x, y)", f"return {value}"))))


RECURSIVE = """
@R.function
def rec(c: R.Tensor((), "bool"), x: R.Tensor((2,))) -> R.Tensor((2,)):
    cls = M
    if c:
        w = cls.rec(R.logical_not(c), STEP)
        z = LAST
    else:
        z = R.exp(x)
    return z
"""


@pytest.mark.parametrize(
    ("step", "last", "expected"),
    [
        ("R.add(x, x)", "w", "float16"),
        ("x", "R.negative(w)", "float16"),
        ("x", "R.less(w, w)", None),
        ('R.astype(x, "float32")', "w", None),
    ],
)
def test_dtype_of_a_recursive_function_follows_from_its_other_branch(
    step: str, last: str, expected: str | None
) -> None:
    params = 'a: R.Tensor((2,), "float16"), c: R.Tensor((), "bool")'
    recursive = RECURSIVE.replace("STEP", step).replace("LAST", last)
    program = parsed(module(recursive, main(params, "p = cls.rec(c, a)", "return p")))
    inferred = structir.infer(program)
    assert inferred["main"].ret_struct_info.dtype == expected
    for flag in (True, False):
        arguments = np.ones(2, "float16"), np.array(flag)
        result = structir.interpret(inferred, "main", *arguments)
        assert expected in (None, result.dtype.name)


@pytest.mark.parametrize("step", ["cell(h, x)", "R.scan(cell, (h,), R.expand_dims(x, 0))"])
def test_function_that_is_an_argument_determines_dtypes(step: str) -> None:
    cell = """
@R.function
def cell(h: R.Tensor, x: R.Tensor):
    y = R.tanh(R.add(h, x))
    return (y, y)
"""
    kind = "R.Callable((R.Tensor, R.Tensor), R.Tuple(R.Tensor, R.Tensor))"
    apply = f"@R.function\ndef apply(cell: {kind}, h: R.Tensor, x: R.Tensor):\n    return {step}"
    params = 'h: R.Tensor((3,)), x: R.Tensor((3,), "float16")'
    program = parsed(module(cell, apply, main(params, "return cls.apply(cls.cell, h, x)[0]")))
    inferred = structir.infer(program)
    assert inferred["main"].params[0].struct_info.dtype == "float16"
    assert inferred["main"].ret_struct_info.dtype == "float16"
    assert structir.structural_equal(parsed(inferred.script()), inferred)
    result = structir.interpret(inferred, "main", np.ones(3, "float16"), np.ones(3, "float16"))
    assert result.dtype == np.float16
