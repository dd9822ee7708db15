"""Tests of programs with dtype variables: each call runs at the dtypes of its arguments."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.analysis import PASS, base_check, binding_struct_infos, erase_to_well_defined
from structir.errors import ShapeMismatchError
from structir.ir import IRModule
from structir.ir.binding_dims import bound_dims
from structir.ir.dtype import DtypeVar
from structir.passes.gradient import gradient

DTYPES = ("float32", "float64", "int32", "int64")
CALLS = """
@R.function(private=True)
def scaled(x: R.Tensor(("n", "k"), "'T"), w: R.Tensor(("k", "m"), "'T")):
    return R.add(R.matmul(x, w), R.matmul(x, w))

@R.function
def main(x: R.Tensor(("n", "k"), "'T"), w: R.Tensor(("k", "k"), "'T"), flag: R.Tensor((), "bool")):
    if flag:
        y = cls.scaled(x, w)
    else:
        y = R.multiply(x, x)
    return (y, R.astype(y, "float32"))
"""
STRAIGHT = (
    CALLS[: CALLS.index("@R.function\ndef main")]
    + """
@R.function
def main(x: R.Tensor(("n", "k"), "'T"), w: R.Tensor(("k", "k"), "'T")):
    return cls.scaled(cls.scaled(x, w), w)
"""
)
PAIR = """
@R.function
def main(x: R.Tensor(("n",), "'T"), y: R.Tuple(R.Tensor((), "'U"), R.Tensor(("n",), "'T"))):
    return R.add(x, y[1])
"""


def arrays(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(6).reshape(3, 2).astype(dtype), np.arange(4).reshape(2, 2).astype(dtype)


@pytest.mark.parametrize("flag", [True, False])
def test_one_program_runs_at_every_dtype(flag: bool) -> None:
    exe = structir.compile(structir.parse(CALLS))
    for dtype in DTYPES:
        x, w = arrays(dtype)
        value, single = exe(x, w, np.array(flag))
        assert (value.dtype, single.dtype) == (dtype, "float32")
        np.testing.assert_array_equal(value, 2 * x @ w if flag else x * x)


def test_each_dtype_is_compiled_once() -> None:
    exe = structir.compile(structir.parse(STRAIGHT))
    before = exe.compile_count
    for _ in range(2):
        for dtype in DTYPES[:2]:
            exe(*arrays(dtype))
    assert exe.compile_count == before + 2
    assert exe.fallbacks == ()
    assert "for each dtype" in structir.compile(structir.parse(STRAIGHT)).source()


def test_a_function_of_any_rank_and_dtype_runs_at_both() -> None:
    text = '@R.function\ndef main(x: R.Tensor(("*s", "n"), "\'T")):\n    return R.sum(x, axis=-1)\n'
    exe = structir.compile(structir.parse(text))
    for dtype, shape in [("float32", (2, 3)), ("int64", (2, 3)), ("float64", (3,))]:
        x = np.ones(shape, dtype)
        assert exe(x).dtype == dtype
        np.testing.assert_array_equal(exe(x), x.sum(-1))


def test_arguments_of_different_dtypes_for_one_variable_are_rejected() -> None:
    module = structir.parse(PAIR)
    x, y = np.ones(3, "float32"), np.ones(3, "float64")
    for run in (structir.compile(module), partial(structir.interpret, module, "main")):
        with pytest.raises(ShapeMismatchError) as error:
            run(x, (np.array(1), y))
        expected = "main: parameter y[1]: expected dtype float32 (bound by x), found float64"
        assert expected in str(error.value)
        assert run(x, (np.array(1), x)).dtype == "float32"


def test_a_match_cast_binds_and_checks_dtype_variables() -> None:
    exe = structir.compile(
        structir.parse("""
@R.function
def main(x: R.Tensor(("n",)), y: R.Tensor(("n",))):
    a = R.match_cast(x, R.Tensor(("n",), "'T"))
    b = R.match_cast(y, R.Tensor(("n",), "'T"))
    return R.add(a, b)
""")
    )
    assert exe(np.ones(2, "int32"), np.ones(2, "int32")).dtype == "int32"
    with pytest.raises(ShapeMismatchError, match="match_cast of b: expected dtype int32"):
        exe(np.ones(2, "int32"), np.ones(2, "int64"))


def test_a_saved_program_runs_at_every_dtype(tmp_path) -> None:
    structir.compile(structir.parse(CALLS)).save(tmp_path / "program.sir")
    exe = structir.load(tmp_path / "program.sir")
    for dtype in DTYPES[:2]:
        assert exe(*arrays(dtype), np.array(True))[0].dtype == dtype


OPS = ("R.add({}, {})", "R.multiply({}, {})", "R.maximum({}, {})", "R.where({} > {}, x, y)")
OPS += ("R.astype({}, 'int64')", "R.flip({}, 0)", "R.cumsum({})", "cls.twice({}, {})")
HELPER = """
@R.function(private=True)
def twice(x: R.Tensor(("n",), "'A"), y: R.Tensor(("n",), "'B")) -> R.Tensor(("n",), "'A"):
    return R.add(x, x)

@R.function
def main(x: R.Tensor(("n",), "'T"), y: R.Tensor(("n",), "'T"), z: R.Tensor(("n",), "'U")):
"""


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Returns a program over values of two dtype variables, without operands of mixed dtypes."""
    classes = {"x": "T", "y": "T", "z": "U"}
    lines = []
    for k in range(draw(st.integers(1, 5))):
        op = draw(st.sampled_from(OPS))
        first = draw(st.sampled_from(sorted(classes)))
        peers = sorted(name for name in classes if classes[name] == classes[first])
        lines.append(f"    v{k} = {op.format(first, draw(st.sampled_from(peers)))}")
        kept = {"R.astype": "int64", "R.where(": "T"}
        classes[f"v{k}"] = kept.get(op[:8], classes[first])
    results = ", ".join(sorted(classes))
    return "\n".join([HELPER.strip("\n"), *lines, f"    return ({results})\n"])


def substituted(text: str, dtypes: dict[str, str]) -> IRModule:
    for name, dtype in dtypes.items():
        text = text.replace(f'"\'{name}"', f'"{dtype}"')
    return structir.parse(text)


@settings(max_examples=20, deadline=None)
@given(programs(), st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_random_programs_equal_those_with_dtypes_substituted(text: str, t: str, u: str) -> None:
    general, known = structir.parse(text), substituted(text, {"T": t, "U": u})
    dtypes = {"T": t, "U": u}
    variables = bound_dims([p.struct_info for p in general["main"].params])
    scope = {v: dtypes[v.name] if isinstance(v, DtypeVar) else 3 for v in variables}
    other = {v: 3 for v in bound_dims([p.struct_info for p in known["main"].params])}
    pairs = zip(
        binding_struct_infos(general["main"]).values(),
        binding_struct_infos(known["main"]).values(),
        strict=True,
    )
    for info, at_dtypes in pairs:
        inferred = erase_to_well_defined(info, scope)
        assert base_check(inferred, erase_to_well_defined(at_dtypes, other)) is PASS
    x, y, z = np.arange(3).astype(t), np.array([2, 0, 5]).astype(t), np.arange(3).astype(u)
    for a, b in zip(
        structir.compile(general)(x, y, z), structir.compile(known)(x, y, z), strict=True
    ):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int8"])
@pytest.mark.parametrize(
    ("body", "f"),
    [
        ("x * 2 + 1", lambda x: x * 2 + 1),
        ("R.maximum(2, x)", lambda x: np.maximum(x, 2)),
        ("R.where(x > 1, x, 0)", lambda x: np.where(x > 1, x, 0)),
        ('x + R.astype(R.arange(3, dtype="int8"), "\'T")', lambda x: x + np.arange(3)),
        ("R.map(lambda a: a * a - 1, x)", lambda x: x * x - 1),
    ],
)
def test_numbers_have_the_dtype_of_the_operand_beside_them(dtype: str, body: str, f: Any) -> None:
    text = f'@R.function\ndef main(x: R.Tensor((3,), "\'T")):\n    return {body}\n'
    module = structir.parse(text)
    assert structir.structural_equal(structir.parse(module.script()), module)
    assert str(module["main"].ret_struct_info) == 'R.Tensor((3,), dtype="\'T")'
    x = np.array([0, 1, 3]).astype(dtype)
    for run in (structir.compile(module), partial(structir.interpret, module, "main")):
        result = run(x)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, f(x).astype(dtype))


def test_a_float_beside_integers_is_an_error() -> None:
    module = structir.parse(
        '@R.function\ndef main(x: R.Tensor((3,), "\'T")):\n    return x * 0.5\n'
    )
    for run in (structir.compile(module), partial(structir.interpret, module, "main")):
        np.testing.assert_array_equal(run(np.ones(3)), np.full(3, 0.5))
        with pytest.raises(
            ShapeMismatchError, match="expected a floating-point dtype, found int64"
        ):
            run(np.ones(3, "int64"))


def test_gradients_with_numbers_have_the_dtype_of_a_call() -> None:
    text = '@R.function\ndef main(x: R.Tensor((3,), "\'T")):\n    return R.sum(x * x * 0.5 + 1)\n'
    adjoint = structir.compile(gradient.transform(structir.parse(text)))
    for dtype in ("float32", "float64"):
        value, (to_x,) = adjoint["main_adjoint"](np.arange(3).astype(dtype))
        assert value == 5.5 and value.dtype == to_x.dtype == dtype and to_x.tolist() == [0, 1, 2]


SCALARS = """
@R.function(private=True)
def shifted(x: R.Tensor(("n",), "'A"), by: R.Prim("'A")):
    return R.add(x, by)

@R.function
def main(x: R.Tensor(("n",), "'T"), pair: R.Tuple(R.Prim("'T"), R.Prim("'U"))):
    s, u = pair
    return (cls.shifted(x * s, s), R.full((2,), u), s)
"""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("convert", [int, np.float16])
def test_a_scalar_has_the_dtype_of_its_variable(dtype: str, convert: Any) -> None:
    module = structir.parse(SCALARS)
    assert structir.structural_equal(structir.parse(module.script()), module)
    x = np.arange(3).astype(dtype)
    number = 2.0 if "float" in dtype else 2
    for run in (structir.compile(module), partial(structir.interpret, module, "main")):
        shifted, full, s = run(x, (number, convert(3)))
        np.testing.assert_array_equal(shifted, x * 2 + 2, strict=False)
        assert (shifted.dtype, s.dtype) == (dtype, dtype)
        assert full.dtype == np.asarray(convert(3)).dtype and full.tolist() == [3, 3]


def test_numbers_of_another_dtype_than_their_variable_are_rejected() -> None:
    module = structir.parse(SCALARS)
    x = np.arange(3, dtype="int8")
    for number, message in [
        (2.5, r"pair\[0\]: expected a number of dtype int8 \(bound by x\), found float 2.5"),
        (300, r"expected a number of dtype int8"),
        (np.int64(2), r"pair\[0\]: expected dtype int8 \(bound by x\), found int64"),
    ]:
        for run in (structir.compile(module), partial(structir.interpret, module, "main")):
            with pytest.raises(ShapeMismatchError, match=message):
                run(x, (number, 1))


def test_a_number_binds_its_variable_to_the_dtype_of_a_literal() -> None:
    module = structir.parse('@R.function\ndef main(s: R.Prim("\'T")):\n    return s + s\n')
    for run in (structir.compile(module), partial(structir.interpret, module, "main")):
        assert (run(2).dtype, run(2.5).dtype) == ("int64", "float32")


def test_gradients_of_functions_of_scalars_are_those_of_the_tensors() -> None:
    text = '@R.function\ndef main(x: R.Tensor((3,), "\'T"), s: R.Prim("\'T")):\n'
    module = gradient.transform(structir.parse(text + "    return R.sum(x * s * x)\n"))
    for dtype in ("float32", "float64"):
        x = np.arange(3).astype(dtype)
        _, (to_x,) = structir.compile(module)["main_adjoint"](x, 2.5)
        assert to_x.dtype == dtype and to_x.tolist() == [0, 5, 10]
