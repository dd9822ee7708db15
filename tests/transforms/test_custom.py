"""Functions with their own derivatives: `custom_vjp`, `custom_jvp`, and rules in programs."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import structir
import structir.numpy as jnp
from structir import passes
from structir.errors import DiagnosticError

X = np.linspace(-1, 1, 5)
FACTOR = 3.0


@structir.custom_vjp
def by_pullback(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y


def forward(x: Any, y: Any) -> Any:
    return by_pullback(x, y), (jnp.cos(x), jnp.sin(x), y)


by_pullback.defvjp(forward, lambda r, g: (FACTOR * r[0] * r[2] * g, FACTOR * r[1] * g))


@structir.custom_jvp
def by_tangent(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y


@by_tangent.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return by_tangent(x, y), FACTOR * (jnp.cos(x) * y * dx + jnp.sin(x) * dy)


BOTH = pytest.mark.parametrize("f", [by_pullback, by_tangent])


def cosine(x: Any, y: Any) -> Any:
    return FACTOR * np.cos(x) * y


@BOTH
def test_the_rule_replaces_the_derivative(f: Any) -> None:
    x, y = np.array(X[1]), np.array(2.0)
    np.testing.assert_allclose(f(x, y), np.sin(x) * y)
    gradients = structir.grad(f, argnums=(0, 1))(x, np.array(y))
    np.testing.assert_allclose(gradients, (cosine(x, y), FACTOR * np.sin(x)), rtol=1e-12)
    value, tangent = structir.jvp(lambda x: f(x, y), (x,), (np.array(2.0),))
    np.testing.assert_allclose((value, tangent), (np.sin(x) * y, 2 * cosine(x, y)), rtol=1e-12)


@BOTH
def test_rules_are_mapped_and_differentiated_again(f: Any) -> None:
    y = np.array(2.0)
    each = structir.vmap(structir.grad(f), in_axes=(0, None))(X, y)
    np.testing.assert_allclose(each, cosine(X, y), rtol=1e-12, atol=1e-12)

    def total(x: Any, y: Any) -> Any:
        return structir.vmap(f, in_axes=(0, None))(x, y).sum()

    gradients = structir.grad(total, argnums=(0, 1))(X, y)
    np.testing.assert_allclose(gradients[0], cosine(X, y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradients[1], (FACTOR * np.sin(X)).sum(), atol=1e-12)
    second = structir.grad(structir.grad(f))(np.array(X[1]), y)
    np.testing.assert_allclose(second, -FACTOR * np.sin(X[1]) * y, rtol=1e-12)
    hessian = structir.hessian(lambda x: structir.vmap(f, in_axes=(0, None))(x, 2.0).sum())(X)
    np.testing.assert_allclose(hessian, np.diag(-FACTOR * np.sin(X) * 2), atol=1e-12)


@BOTH
def test_rules_hold_in_loops(f: Any) -> None:
    def loss(x: Any) -> Any:
        return structir.lax.scan(lambda c, a: (f(c, a), None), x, X + 2)[0]

    expected, value, slope = 0.3, 0.3, 1.0
    for a in X + 2:
        value, slope = np.sin(value) * a, slope * cosine(value, a)
    np.testing.assert_allclose(structir.grad(loss)(np.array(expected)), slope, rtol=1e-10)


def test_arguments_are_trees_with_static_and_integer_parts() -> None:
    @partial(structir.custom_vjp, nondiff_argnums=(0,))
    def apply(function: Any, p: Any, k: Any) -> Any:
        return {"value": function(p["w"]), "count": k + 1}

    def backward(function: Any, residuals: Any, g: Any) -> Any:
        return {"w": g["value"] * residuals}, None

    apply.defvjp(lambda function, p, k: (apply(function, p, k), 10.0 * p["w"]), backward)

    def loss(p: Any) -> Any:
        return apply(jnp.sin, p, np.int32(2))["value"].sum()

    np.testing.assert_allclose(structir.grad(loss)({"w": X})["w"], 10 * X)
    assert apply(jnp.sin, {"w": X}, np.int32(2))["count"] == 3


def test_a_rule_for_each_argument_and_from_a_pullback() -> None:
    @structir.custom_jvp
    def product(x: Any, y: Any) -> Any:
        return x * y

    product.defjvps(lambda t, result, x, y: 7 * t * y, None)
    gradients = structir.grad(product, argnums=(0, 1))(np.array(3.0), np.array(2.0))
    np.testing.assert_allclose(gradients, (14, 0))

    @structir.custom_gradient
    def square(x: Any) -> Any:
        return x**2, lambda g: (g * 5,)

    np.testing.assert_allclose(structir.grad(square)(np.array(3.0)), 5)


PROGRAM = """
@I.ir_module
class Module:
    @R.function(private=True)
    def f(x: R.Tensor(("n",), "float64")) -> R.Tensor(("n",), "float64"):
        R.func_attr({"RULE": "f_rule"})
        return R.exp(x)

    @R.function(private=True)
    def f_rule(x: R.Tensor(("n",), "float64"), t: R.Tensor(("n",), "float64")):
        return BODY

    @R.function
    def main(x: R.Tensor(("n",), "float64")):
        cls = Module
        y = cls.f(x)
        return R.sum(y * y)
"""
RULES = {"pullback": "x * t", "tangent": "(R.exp(x), x * t)"}


@pytest.mark.parametrize("rule", RULES)
def test_programs_declare_rules(rule: str) -> None:
    module = structir.parse(PROGRAM.replace("RULE", rule).replace("BODY", RULES[rule]))
    assert structir.parse(module.script()).script() == module.script()
    module = passes.DeadCodeElimination()(module)
    compiled = structir.compile(passes.Gradient()(module))
    (gradient,) = compiled["main_adjoint"](X)[1]
    np.testing.assert_allclose(gradient, 2 * np.exp(X) * X, rtol=1e-12)


def test_missing_rules_and_captured_arrays_are_reported() -> None:
    wrong = structir.parse(
        PROGRAM.replace('"RULE": "f_rule"', '"pullback": "g"').replace("BODY", "x")
    )
    with pytest.raises(DiagnosticError, match="pullback: expected a function g with 2 parameters"):
        passes.Gradient()(wrong)

    def outer(x: Any, y: Any) -> Any:
        return structir.custom_vjp(lambda x: x * y)(x)

    with pytest.raises(DiagnosticError, match="uses an array of an outer function"):
        structir.jit(outer)(X, X)
    short = structir.custom_vjp(lambda x, y: x)
    short.defvjp(lambda x, y: (x, None), lambda r, g: (g,))
    with pytest.raises(DiagnosticError, match="expected 2 cotangents"):
        structir.grad(lambda x: short(x, x).sum())(X)


def test_a_missing_rule_and_a_rule_without_a_pair_are_reported() -> None:
    def double(x: Any) -> Any:
        return x * 2

    x = np.ones(3, "float32")
    missing, tangent = structir.custom_vjp(double), structir.custom_jvp(double)
    with pytest.raises(DiagnosticError, match=r"`double\.defvjp\(forward, backward\)`"):
        structir.grad(lambda x: missing(x).sum())(x)
    with pytest.raises(DiagnosticError, match=r"`double\.defjvp\(jvp\)`"):
        structir.jvp(tangent, (x,), (x,))
    single = structir.custom_vjp(double)
    single.defvjp(double, lambda residuals, g: (g,))
    with pytest.raises(DiagnosticError, match=r"expected the pair `\(result, residuals\)`"):
        structir.grad(lambda x: single(x).sum())(x)


def test_numbers_of_arguments_count_from_both_ends() -> None:
    def f(y: Any, x: Any) -> Any:
        return y * jnp.sum(x**2)

    y, x = np.float32(2), np.arange(3, dtype="float32")
    for transform in (structir.grad, structir.jacfwd, structir.jacrev):
        assert transform(f, argnums=-1)(y, x).tolist() == [0, 4, 8]
    with pytest.raises(DiagnosticError, match="number of one of the 2 positional arguments, found"):
        structir.jacfwd(f, argnums=2)(y, x)


@pytest.mark.parametrize("key", [0, (3, 4), np.zeros((3, 2), "uint32"), np.zeros(2, "int32")])
def test_random_functions_take_one_key(key: Any) -> None:
    for draw in (structir.random.normal, structir.random.split, structir.random.fold_in):
        with pytest.raises(DiagnosticError, match="expected a key, a vector of 2 uint32"):
            draw(key, 2)


def test_a_lambda_has_a_rule() -> None:
    f = structir.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (FACTOR * g * x,))
    value, gradient = structir.value_and_grad(f)(np.array(2.0))
    np.testing.assert_allclose([value, gradient], [np.sin(2.0), FACTOR * 2.0])
