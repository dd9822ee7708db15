"""Functions of JAX, imported, interpreted and compiled, compared with JAX."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: pip install structir[jax]")

import jax.numpy as jnp  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from jax import lax  # noqa: E402

import structir  # noqa: E402
from structir.errors import DiagnosticError, ShapeMismatchError  # noqa: E402
from structir.frontend.jax import (  # noqa: E402
    Equation,
    Pair,
    complex_rule,
    complex_rules,
    from_jax,
    jax_primitive,
)
from structir.frontend.jax.registry import _builds, find_build  # noqa: E402
from structir.script import R  # noqa: E402
from tests.frontend.jax.functions import FUNCTIONS, f32, i32  # noqa: E402
from tests.frontend.jax.primitives import PRIMITIVES  # noqa: E402

SIZES = ({"n": 6, "m": 3}, {"n": 1, "m": 2})


def values_of(specs: Any, sizes: dict[str, int], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)

    def value(info: Any) -> Any:
        shape = [d if isinstance(d, int) else sizes[str(d)] for d in info.dims]
        if info.dtype.startswith("float"):
            return rng.standard_normal(shape).astype(info.dtype)
        return rng.integers(0, 5, shape).astype(info.dtype)

    return jax.tree_util.tree_map(value, specs, is_leaf=lambda v: hasattr(v, "dims"))


def assert_same(found: Any, expected: Any) -> None:
    found, expected = (jax.tree_util.tree_leaves(v) for v in (found, expected))
    assert len(found) == len(expected)
    for a, b in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        loose = 2e-2 if b.dtype.name in ("bfloat16", "float16") else 2e-4
        a, b = a.astype("float64"), b.astype("float64")
        np.testing.assert_allclose(a, b, rtol=loose, atol=loose / 10)


def check(function: Any, specs: Any) -> None:
    module = from_jax(function, *specs)
    assert structir.structural_equal(structir.parse(str(module)), module)
    main = structir.compile(module)["main"]
    for sizes in SIZES if '"n"' in str(module) or "n," in str(specs) else SIZES[:1]:
        arguments = values_of(specs, sizes)
        expected = jax.jit(function)(*jax.tree_util.tree_map(jnp.asarray, arguments))
        assert_same(main(*arguments), expected)
        assert_same(structir.interpret(module, "main", *arguments), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_users(name: str) -> None:
    check(*FUNCTIONS[name])


@pytest.mark.parametrize("group", PRIMITIVES)
def test_primitives(group: str) -> None:
    """Functions of the same arguments are one program: a compilation takes most of the time."""
    of_specs = defaultdict(list)
    for function, specs in PRIMITIVES[group]:
        of_specs[str(specs)].append((function, specs))
    for cases in of_specs.values():
        check(lambda *args, cases=cases: [function(*args) for function, _ in cases], cases[0][1])


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_random_gathers_and_scatters(data: Any) -> None:
    """Vmapped dynamic slices and updates, at starts inside and outside of the operand."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    window = [data.draw(st.integers(1, size)) for size in sizes]
    axis = data.draw(st.integers(0, len(sizes)))
    batched = [*sizes[:axis], 3, *sizes[axis:]]
    x = f32(*batched)
    start = structir.parse_struct_info(f'R.Tensor((3, {len(sizes)}), "int32")')

    def function(x: Any, starts: Any) -> Any:
        def one(x: Any, start: Any) -> Any:
            place = tuple(start - 1)
            part = jax.lax.dynamic_slice(x, place, window)
            return part, jax.lax.dynamic_update_slice(x, part * 2, place), x[tuple(start)]

        return jax.vmap(one, in_axes=(axis, 0))(x, starts)

    check(function, (x, start))


def test_sizes_stay_symbolic() -> None:
    module = from_jax(lambda x: x[1:].reshape(-1), f32("n", 8))
    assert str(module["main"].ret_struct_info) == 'R.Tensor((8 * n - 8,), dtype="float32")'
    (shape,) = [jax.export.symbolic_shape("b, 2*b")]
    spec = jax.ShapeDtypeStruct(shape, jnp.float32)
    assert str(from_jax(lambda x: x.T, spec)["main"].params[0].struct_info) == (
        'R.Tensor((b, 2 * b), dtype="float32")'
    )


def test_dicts_are_named_fields() -> None:
    module = from_jax(lambda p: {"y": p["w"] + p["b"], "a": (p["b"],)}, {"w": f32(2), "b": f32(2)})
    info = module["main"].params[0].struct_info
    assert info.names == ("b", "w")
    assert module["main"].ret_struct_info.names == ("a", "y")


def test_arrays_of_a_closure_are_constants() -> None:
    table = jnp.arange(12.0).reshape(3, 4)
    check(lambda x: x @ table.T, (f32("n", 4),))


def test_keys_of_other_generators_are_rejected() -> None:
    def function(x: Any) -> Any:
        return x + jax.random.normal(jax.random.key(0, impl="rbg"), ())

    with pytest.raises(DiagnosticError, match="expected threefry2x32, found"):
        from_jax(function, f32(2))


def test_a_primitive_without_a_mapping_is_one_error_at_its_line() -> None:
    with pytest.raises(DiagnosticError, match="schur: the primitive has no mapping") as caught:
        from_jax(lambda x: lax.linalg.schur(x), f32(8, 8))
    assert "test_from_jax.py" in str(caught.value)
    assert '@jax_primitive("schur")' in str(caught.value)


def test_another_spec_is_an_error() -> None:
    with pytest.raises(DiagnosticError, match="expected the StructInfo of a tensor"):
        from_jax(lambda x: x, "float32")


def test_a_mapping_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_builds, "schur", None)

    @jax_primitive("schur")
    def schur_form(equation: Equation) -> Any:
        return [R.negative(*equation.args), *equation.args]

    assert find_build("schur") is schur_form
    module = from_jax(lambda x: lax.linalg.schur(x)[0], f32(8, 8))
    assert "R.negative" in str(module)


@pytest.mark.parametrize("state", [{}, (), [], None])
def test_an_empty_dict_is_a_tuple_without_fields(state: Any) -> None:
    """Libraries of layers keep their state in a dict, which is empty for many layers."""
    module = from_jax(lambda state, x: (state, x + 1), {}, f32("n"))
    result, value = structir.compile(module)["main"](state, np.zeros(3, "float32"))
    assert result == () and value.tolist() == [1, 1, 1]


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    """A layer as a pytree of a user."""

    weight: Any
    bias: Any = None
    name: str = field(default="layer", metadata={"static": True})


class State(NamedTuple):
    """A state as libraries of optimizers keep it."""

    count: Any
    layers: Any


def test_nodes_of_other_types_are_tuples_with_the_names_of_their_parts() -> None:
    def step(state: State, x: Any) -> State:
        layers = [Layer(x @ layer.weight, layer.bias) for layer in state.layers]
        return State(state.count + 1, layers)

    layers = [Layer(f32(3, 2), f32(2)), Layer(f32(3, 4))]
    module = from_jax(step, State(i32(), layers), f32("n", 3))
    info = module["main"].params[0].struct_info
    assert info.names == ("count", "layers") and info.fields[1].fields[1].names == (
        "weight",
        "bias",
    )
    values = [Layer(np.ones((3, 2), "f"), np.ones(2, "f")), Layer(np.ones((3, 4), "f"))]
    arguments = State(np.int32(1), values), np.ones((2, 3), "f")
    count, (first, second) = structir.compile(module)["main"](*arguments)
    assert count == 2 and first[0].tolist() == [[3, 3]] * 2 and second[1] == ()
    assert structir.interpret(module, "main", *arguments)[1][1][0].tolist() == [[3] * 4] * 2
    with pytest.raises(ShapeMismatchError, match="expected a tuple, found"):
        structir.compile(module)["main"](np.ones(3, "f"), arguments[1])


def test_complex_arguments_and_results_have_a_last_axis_of_their_parts() -> None:
    specs = [jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 4"), "complex64")] * 2
    module = from_jax(lambda x, y: x * y + jnp.conj(x), *specs)
    assert str(module["main"].ret_struct_info) == 'R.Tensor((n, 4, 2), dtype="float32")'
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((3, 4, 2)).astype("float32") for _ in specs]
    x, y = (part.view("complex64")[..., 0] for part in parts)
    actual = structir.compile(module)["main"](*parts).view("complex64")[..., 0]
    np.testing.assert_allclose(actual, x * y + x.conj(), rtol=1e-5, atol=1e-6)


def test_a_primitive_without_a_rule_for_complex_numbers_is_one_error() -> None:
    with pytest.raises(
        DiagnosticError, match=r"eigh: the primitive has no rule for complex"
    ) as error:
        from_jax(lambda x: jnp.linalg.eigvalsh(x * 1j), f32(3, 3))
    assert "jnp.real(x)" in str(error.value)


def test_a_rule_for_complex_numbers_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complex_rules, "_rules", dict(complex_rules._rules))

    @complex_rule("asin")
    def inverse_sine(equation: Any, x: Pair) -> Pair:
        return x

    module = from_jax(lambda x: jnp.imag(lax.asin(x + 1j)), f32("n"))
    assert structir.compile(module)["main"](np.ones(2, "f")).tolist() == [1, 1]
