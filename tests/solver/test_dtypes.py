"""Tests of dtype inference: functions are generalised per call in dtypes."""

import numpy as np
import pytest

import structir
from structir.errors import StructInfoError
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
