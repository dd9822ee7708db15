"""A function that is declared once works in every layer; the facts of declarations hold."""

import attrs
import numpy as np
import pytest
import scipy.special

import structir
from structir.errors import DiagnosticError
from structir.ir import op as op_registry
from structir.ir import scalar_functions
from structir.ir.dtype import numpy_dtype
from structir.ir.scalar_functions import declare, declared
from structir.opdef.define import op
from structir.projections import scalar_expr
from structir.projections.scalar_expr import OperandElement, ScalarExpr
from structir.projections.values import EvaluationPoint, derivative, evaluate, ufunc
from structir.targets.cpu.prepared import prepared


def cubed(x):
    return x * x * x


@pytest.fixture(autouse=True, scope="module")
def declarations():
    """Two functions and an op, which other tests do not see."""
    declare(
        "softplus_of_test",
        numpy=lambda x: np.log1p(np.exp(x)),
        body=lambda x: scalar_expr.log1p(scalar_expr.exp(x)),
    )
    declare(
        "cube_of_test",
        numpy=cubed,
        single=lambda: cubed,
        double=lambda: cubed,
        slopes=(lambda x: 3 * x * x,),
    )

    @op("x[*s] @ F -> y[*s] @ F")
    def soft_cube_of_test(x: ScalarExpr) -> ScalarExpr:
        """Computes a softplus of a cube."""
        return scalar_expr.softplus_of_test(scalar_expr.cube_of_test(x))

    yield
    del op_registry._ops["soft_cube_of_test"]
    for name in ("softplus_of_test", "cube_of_test"):
        del scalar_functions._declared[name]


TEXT = """
@R.function
def main(x: R.Tensor(("n",), "{dtype}")):
    return R.soft_cube_of_test(x)
"""


def soft_cube(x):
    return np.log1p(np.exp(x * x * x))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_in_an_op_by_text(dtype: str) -> None:
    module = structir.parse(TEXT.format(dtype=dtype))
    assert structir.structural_equal(structir.parse(module.script()), module)
    x = np.linspace(-1.5, 1.5, 37).astype(dtype)
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    expected = soft_cube(x.astype("float64"))
    for result in (structir.interpret(module, "main", x), structir.compile(module)["main"](x)):
        assert result.dtype == numpy_dtype(dtype)
        np.testing.assert_allclose(result.astype("float64"), expected, tolerance, tolerance)


def through_numpy(x):
    return np.log1p(np.exp(x))


def by_default(x, factor=3.0):
    return x * factor


FORMS = {  # functions that only numba compiles
    "functions of NumPy": (through_numpy, through_numpy),
    "a lambda": (lambda x: x * 3.0, by_default),
    "a default": (by_default, by_default),
    "text": (eval("lambda x: x * 3.0"), by_default),
}


@pytest.mark.parametrize("name", FORMS)
def test_vector_forms_of_any_python_function(name: str) -> None:
    single, expected = FORMS[name]
    declare("form_of_test", numpy=expected, single=lambda: single)
    try:
        module = structir.parse(TEXT_OF_FORM)
        x = np.linspace(-1.5, 1.5, 37, dtype="float32")
        np.testing.assert_allclose(structir.compile(module)["main"](x), expected(x), 1e-6, 1e-6)
    finally:
        scalar_functions._declared.pop("form_of_test", None)


def test_a_vector_form_that_cannot_be_compiled_is_an_error(monkeypatch) -> None:
    def with_import(x):
        import math

        return math.exp(x)

    form = attrs.evolve(declared()["cube_of_test"], single=lambda: with_import)
    monkeypatch.setitem(scalar_functions._declared, "cube_of_test", form)
    with pytest.raises(DiagnosticError, match="with_import: numba cannot compile") as raised:
        prepared(form.symbol_of("float32"))
    assert "test_declared.py" in str(raised.value)


def test_derivatives_by_slopes_and_by_bodies() -> None:
    x = np.linspace(-1.5, 1.5, 37)
    tree = scalar_expr.softplus_of_test(scalar_expr.cube_of_test(OperandElement("x")))
    slope = evaluate(derivative(tree, "x"), EvaluationPoint({"x": x}))
    rise = (soft_cube(x + 1e-6) - soft_cube(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, rise, 1e-6, 1e-8)


TEXT_OF_FORM = """
@I.ir_module
class Module:
    @I.kernel
    def k(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        for i in range(n):
            y[i] = T.form_of_test(x[i])

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return R.call_kernel(k, (x,), out_sinfo=R.Tensor((n,), "float32"))
"""


KERNEL = """
@I.ir_module
class Module:
    @I.kernel
    def k(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        for i in range(n):
            y[i] = T.softplus_of_test(T.cube_of_test(x[i]))

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return R.call_kernel(k, (x,), out_sinfo=R.Tensor((n,), "float32"))
"""


def test_in_a_kernel_by_text() -> None:
    module = structir.parse(KERNEL)
    assert "T.softplus_of_test(T.cube_of_test(x[i]))" in module.script()
    x = np.linspace(-1.5, 1.5, 37).astype("float32")
    for result in (structir.interpret(module, "main", x), structir.compile(module)["main"](x)):
        np.testing.assert_allclose(result, soft_cube(x), 1e-6)


ONE = [f for f in declared().values() if f.count == 1]


@pytest.mark.parametrize("function", ONE, ids=lambda f: f.name)
def test_facts_of_domain_order_and_symmetry(function) -> None:
    low, high = np.clip(function.domain, -6, 6)
    inside = np.linspace(low, high, 102)[1:-1]  # without the integers between
    outside = [v for v in (low - 0.5, high + 0.5) if abs(v) < 6]
    compute = ufunc(function.numpy)
    with np.errstate(all="ignore"):
        values = compute(inside)
        assert np.isfinite(values).all()
        assert np.isnan(compute(np.array(outside, "float64"))).all()
        steps = np.diff(values)
        if function.monotone:
            assert (steps >= 0 if function.monotone == "increasing" else steps <= 0).all()
        if function.parity:
            sign = 1 if function.parity == "even" else -1
            np.testing.assert_array_equal(compute(-inside), sign * values)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_inverse_normal_distribution():
    """It has 14 digits from the least float up to the neighbour of 1."""
    least = 10.0 ** -np.linspace(0.3, 323, 2001)
    p = np.concatenate([least, 1 - least[:100], np.linspace(0, 1, 2001), [-0.5, 1.5, np.nan]])
    text = """@R.function
def main(p: R.Tensor(("n",), "float64")):
    return R.ndtri(p)
"""
    main = structir.compile(structir.parse(text))["main"]
    np.testing.assert_allclose(main(p), scipy.special.ndtri(p), rtol=4e-15, atol=1e-16)
