"""Scalar expressions: functions compared with NumPy and SciPy, derivatives, and dtype rules."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from structir.ir.dims import sym
from structir.ir.dtype import INTS, int_limits
from structir.ir.scalar_functions import declared
from structir.projections import scalar_expr as points
from structir.projections.scalar_expr import (
    FUNCTIONS,
    LoopIndex,
    OperandElement,
    ScalarExtent,
    ScalarLiteral,
    ScalarOp,
    cast,
    eq,
    exp,
    log,
    operands_of,
    select,
    substitute,
)
from structir.projections.values import EvaluationPoint, derivative, dtype_of, evaluate
from tests.cases import every_case

X, Y, Z = OperandElement("x"), OperandElement("y"), OperandElement("z")

EXPECTED = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "quotient": np.divide,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": np.power,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.round,
    "trunc": np.trunc,
    "min": np.minimum,
    "max": np.maximum,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "ndtri": special.ndtri,
    "cbrt": np.cbrt,
    "exp2": np.exp2,
    "lgamma": special.gammaln,
    "sigmoid": special.expit,
    "atan2": np.arctan2,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "select": np.where,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}
INTEGER_ONLY = {
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "bitnot": np.bitwise_not,
    "shl": np.left_shift,
    "shr": np.right_shift,
}
OTHER_COUNTS = {"select": 3, "round": 1}  # of functions that are no ufuncs


def count_of(name: str) -> int:
    """Returns the number of operands."""
    if name in declared():
        return declared()[name].count
    return OTHER_COUNTS.get(name) or {**EXPECTED, **INTEGER_ONLY}[name].nin


def applied(name: str) -> ScalarOp:
    """Returns a table function applied to x, to x and y, or to x, y and z."""
    count = count_of(name)
    return ScalarOp(name, (X, Y, Z)[:count])


def arguments(name: str, dtype: str) -> list[np.ndarray]:
    """Returns values between 0.1 and 0.9 in the domain of a function, or 1 more."""
    rng = np.random.default_rng(0)
    count = len(applied(name).args)
    low = max(FUNCTIONS[name].domain[0], 0)
    values = [rng.uniform(0.1, 0.9, 40) + low for _ in range(count)]
    if name == "select":
        values[0] = values[0] > 0.5
        return [values[0], *[v.astype(dtype) for v in values[1:]]]
    return [v.astype(dtype) for v in values]


def test_every_function_has_an_expected_value():
    assert {*EXPECTED, *INTEGER_ONLY, "cast"} == {
        n for n in FUNCTIONS if not n.endswith("_of_test")
    }  # of other files


@every_case(("name", "dtype"), itertools.product(EXPECTED, ["float32", "float64"]))
def test_values_equal_numpy(name, dtype):
    values = arguments(name, dtype)
    result = evaluate(applied(name), EvaluationPoint(dict(zip("xyz", values, strict=False))))
    expected = EXPECTED[name](*values)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("name", INTEGER_ONLY)
def test_bitwise_functions_equal_numpy(name):
    x, y = np.array([0, 1, 5, -7], "int32"), np.array([1, 3, 2, 0], "int32")
    result = evaluate(applied(name), EvaluationPoint({"x": x, "y": y}))
    given_ = (x,) if name == "bitnot" else (x, y)
    np.testing.assert_array_equal(result, INTEGER_ONLY[name](*given_))
    assert result.dtype == np.int32


@pytest.mark.parametrize(
    "name", [n for n, row in FUNCTIONS.items() if row.slopes and n in EXPECTED]
)
def test_derivatives_match_differences(name):
    values = dict(zip("xyz", arguments(name, "float64"), strict=False))
    tree = applied(name)
    for operand in operands_of(tree):
        if values[operand].dtype == bool:
            continue
        slope = evaluate(derivative(tree, operand), EvaluationPoint(values))
        ahead, behind = dict(values), dict(values)
        ahead[operand] = values[operand] + 1e-6
        behind[operand] = values[operand] - 1e-6
        rise = evaluate(tree, EvaluationPoint(ahead)) - evaluate(tree, EvaluationPoint(behind))
        np.testing.assert_allclose(np.broadcast_to(slope, rise.shape), rise / 2e-6, rtol=1e-5)


def test_derivative_of_a_composition():
    tree = log(1 + exp(X * Y)) / (X + 2)
    values = {"x": np.array([0.3, -1.2]), "y": np.array([2.0, 0.4])}
    slope = evaluate(derivative(tree, "x"), EvaluationPoint(values))
    rise = [
        evaluate(tree, EvaluationPoint({**values, "x": values["x"] + h})) for h in (1e-6, -1e-6)
    ]
    np.testing.assert_allclose(slope, (rise[0] - rise[1]) / 2e-6, rtol=1e-6)
    assert derivative(tree, "z") == ScalarLiteral(0)
    assert derivative(cast(X, "int32"), "x") == ScalarLiteral(0)


def test_ties_share_the_derivative():
    values = {"x": np.array([1.0, 2.0]), "y": np.array([1.0, 1.0])}
    for operand, expected in (("x", [0.5, 1.0]), ("y", [0.5, 0.0])):
        slope = evaluate(derivative(points.max(X, Y), operand), EvaluationPoint(values))
        np.testing.assert_array_equal(slope, expected)


def test_python_operators_build_trees():
    n, i = sym("n"), next(iter(sym("i").terms))[0]
    tree = (2 * X - Y) / n + LoopIndex(i) % 3
    assert tree == ScalarOp(
        "add",
        (
            ScalarOp(
                "div",
                (ScalarOp("sub", (ScalarOp("mul", (ScalarLiteral(2), X)), Y)), ScalarExtent(n)),
            ),
            ScalarOp("mod", (LoopIndex(i), ScalarLiteral(3))),
        ),
    )
    assert repr(1 / (1 + exp(-X))) == "div(1, add(1, exp(neg(x))))"


def test_literals_of_different_kinds_differ():
    assert (
        len(
            {
                ScalarLiteral(1),
                ScalarLiteral(1.0),
                ScalarLiteral(True),
                ScalarLiteral(0.0),
                ScalarLiteral(-0.0),
            }
        )
        == 5
    )


def test_a_scalar_expression_has_no_truth_value():
    with pytest.raises(TypeError, match="select"):
        bool(X > 0)
    with pytest.raises(TypeError, match="eq"):
        select(X == Y, X, Y)
    with pytest.raises(TypeError, match="expected a scalar expression or a number, found str"):
        X + "one"


def test_substitution_replaces_everywhere():
    assert substitute(exp(X) * X, {X: Y + 1}) == exp(Y + 1) * (Y + 1)


@pytest.mark.parametrize(
    ("tree", "dtypes", "expected"),
    [
        (X + 1, ("int8", ""), "int8"),
        (X * 0.5, ("float16", ""), "float16"),
        (X * 0.5, ("int32", ""), "float64"),
        (X / 2, ("int32", ""), "float64"),
        (X / 2, ("float32", ""), "float32"),
        (X + Y, ("float32", "int64"), "float32"),
        (X + Y, ("bfloat16", "float16"), "float32"),
        (X + Y, ("int8", "uint8"), "int16"),
        (X + Y, ("bool", "int32"), "int32"),
        (X < Y, ("float32", "int64"), "bool"),
        (select(X, Y, 0), ("bool", "float32"), "float32"),
        (cast(X, "int8"), ("float32", ""), "int8"),
        (exp(X), ("int32", ""), "float64"),
        (ScalarLiteral(2) + 1, ("", ""), "int64"),
        (ScalarLiteral(2) / 3, ("", ""), "float64"),
    ],
)
def test_dtypes(tree, dtypes, expected):
    assert dtype_of(tree, dict(zip("xy", dtypes, strict=True))) == expected


def test_an_index_takes_the_dtype_of_the_other_operand():
    index_var = next(iter(sym("i").terms))[0]
    place = EvaluationPoint({"x": np.ones(3, "float32")}, {index_var: np.arange(3)})
    result = evaluate(X * LoopIndex(index_var), place)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, [0, 1, 2])


def test_integer_division_equals_numpy():
    x, y = np.array([7, -7, 7, -7, 5], "int32"), np.array([2, 2, -2, -2, 0], "int32")
    place = EvaluationPoint({"x": x, "y": y})
    np.testing.assert_array_equal(evaluate(X // Y, place)[:4], [3, -4, -4, 3])
    np.testing.assert_array_equal(evaluate(X % Y, place)[:4], [1, 1, -1, -1])
    np.testing.assert_array_equal(evaluate(X / Y, place)[:4], [3.5, -3.5, -3.5, 3.5])


def test_integer_powers_of_negative_exponents_truncate():
    x, y = np.array([2, 1, -1, -1, 3], "int64"), np.array([-1, -5, -3, -2, 3], "int64")
    np.testing.assert_array_equal(
        evaluate(X**Y, EvaluationPoint({"x": x, "y": y})), [0, 1, -1, 1, 27]
    )


def test_booleans_add_as_a_union():
    x, y = np.array([True, True, False]), np.array([True, False, False])
    place = EvaluationPoint({"x": x, "y": y})
    np.testing.assert_array_equal(evaluate(X + Y, place), [True, True, False])
    np.testing.assert_array_equal(evaluate(X * Y, place), [True, False, False])
    np.testing.assert_array_equal(evaluate(points.max(X, Y), place), [True, True, False])


def test_rounding_keeps_integers():
    x = np.array([2**62 + 1], "int64")
    for name in ("ceil", "floor", "round", "trunc"):
        assert evaluate(ScalarOp(name, (X,)), EvaluationPoint({"x": x}))[0] == 2**62 + 1


def test_narrow_floats_are_computed_in_float32():
    x = np.array([1000.0], "float16")
    assert evaluate(X * X / 1000, EvaluationPoint({"x": x}))[0] == pytest.approx(1000.0)
    through = evaluate(cast(X * X, "float16") / 1000, EvaluationPoint({"x": x}))
    assert math.isinf(through[0])


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=5), st.integers(1, 9))
def test_eq_compares_values(values, pivot):
    x = np.array(values)
    result = evaluate(select(eq(X, pivot), 1, 0), EvaluationPoint({"x": x}))
    assert result.tolist() == [int(v == pivot) for v in values]


def test_quotients_of_integers_are_rounded_toward_zero():
    x, y = np.array([7, -7, 7, -7, 2**62 + 1, 5]), np.array([2, 2, -2, -2, 3, 0])
    result = evaluate(applied("quotient"), EvaluationPoint({"x": x, "y": y}, {}, {}))
    assert result.dtype == np.int64
    assert list(result) == [3, -3, -3, 3, (2**62 + 1) // 3, 0]


@pytest.mark.parametrize("own", ["int2", "uint2", "int4", "uint4"])
def test_narrow_integers_promote_to_a_dtype_that_contains_both(own):
    for other in sorted(INTS - {own}):
        result = dtype_of(X + Y, {"x": own, "y": other})
        low, high = int_limits(result)
        for dtype in (own, other):
            least, most = int_limits(dtype)
            assert least >= low
            assert most <= high or (result, other) == ("int64", "uint64")


@pytest.mark.parametrize("own", ["int8", "uint8", "int32", "uint32", "uint64"])
def test_integer_promotion_equals_numpy(own):
    for other in ("int8", "int16", "uint16", "int64", "uint64"):
        expected = np.promote_types(own, other).name.replace("float64", "int64")
        assert dtype_of(X + Y, {"x": own, "y": other}) == expected
