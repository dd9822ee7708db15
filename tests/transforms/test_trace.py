"""Tracing: programs, sizes, specialisation, containers and errors at the user's line."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import structir
import structir.numpy as snp
from structir import lax
from structir.errors import DiagnosticError
from structir.script import I, R

MATRIX = R.Tensor(("n", 4), "float32")


def error_of(function: Any, *specs: Any) -> DiagnosticError:
    with pytest.raises(DiagnosticError) as caught:
        structir.trace(function, *specs)
    return caught.value


def test_a_traced_function_is_the_program_of_the_dsl() -> None:
    def f(x: Any, w: Any) -> Any:
        return snp.tanh(x @ w) + 1.0

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")) -> R.Tensor(
            ("n", "m"), "float32"
        ):
            n, m = T.int64(), T.int64()
            y = R.matmul(x, w)
            z = R.tanh(y)
            return R.add(z, R.const(1.0, "float32"))

    module = structir.trace(f, MATRIX, R.Tensor((4, "m"), "float32"))
    assert structir.structural_equal(module, Expected)
    assert structir.structural_equal(structir.parse(module.script()), module)


def test_a_decorator_reads_annotations() -> None:
    @structir.trace
    def main(x: R.Tensor(("n", 4), "float32"), p: R.Tuple(a=R.Tensor((4,), "float32"))) -> Any:
        return x * p["a"]

    x = np.ones((2, 4), "float32")
    result = structir.compile(main)["main"](x, (np.arange(4, dtype="float32"),))
    np.testing.assert_array_equal(result, np.tile(np.arange(4), (2, 1)))


def test_one_program_for_all_sizes() -> None:
    run = structir.compile(structir.trace(lambda x: x.sum(0) / x.shape[0], MATRIX))["main"]
    for n in (1, 2, 7):
        np.testing.assert_allclose(run(np.full((n, 4), 3, "float32")), 3.0)


def test_containers_of_arguments_and_results() -> None:
    class Pair(NamedTuple):
        first: Any
        second: Any

    def f(p: dict[str, Any], items: list[Any], pair: Pair) -> Any:
        assert isinstance(items, list) and isinstance(pair, Pair)
        return Pair({"sum": p["b"] + items[0]}, [pair.first, None])

    x = np.ones(3, "float32")
    result = structir.jit(f)({"b": x}, [x, 2], Pair(x, x))
    assert isinstance(result, Pair) and result.second[1] is None
    np.testing.assert_array_equal(result.first["sum"], 2)


def test_equal_sizes_share_a_symbol_and_other_shapes_are_traced_again() -> None:
    function = structir.jit(lambda x, w: x @ w)
    for n, m in ((4, 4), (4, 5), (7, 5), (9, 6), (3, 1)):
        x, w = np.ones((n, 4), "float32"), np.ones((4, m), "float32")
        np.testing.assert_array_equal(function(x, w), np.full((n, m), 4))
    assert len(function.specialisations) <= 3


def test_a_size_that_python_needs_is_fixed() -> None:
    def f(x: Any) -> Any:
        total = 0
        for k in range(x.shape[0]):
            total = total + k * x[k]
        return total

    function = structir.jit(f)
    for n in (2, 3):
        x = np.arange(n * 5, dtype="float32").reshape(n, 5)
        np.testing.assert_allclose(function(x), (np.arange(n)[:, None] * x).sum(0))
    assert function.specialisations[0].patterns[0][0] == (2, "n5")
    with pytest.raises(DiagnosticError, match=r"(?s)the size n is symbolic.*fori_loop"):
        structir.trace(f, MATRIX)


def test_sizes_that_cannot_be_proved_equal_are_fixed() -> None:
    def heads(x: Any, w: Any) -> Any:
        b, d = x.shape
        y = x.reshape(b, 3, d // 3).transpose(1, 0, 2).transpose(1, 0, 2).reshape(b, 3 * (d // 3))
        return y @ w

    function = structir.jit(heads)
    for b in (5, 8):
        x, w = np.random.rand(b, 6).astype("float32"), np.random.rand(6, 7).astype("float32")
        np.testing.assert_allclose(function(x, w), x @ w, rtol=1e-5)
    assert len(function.specialisations) == 1  # the batch stays symbolic


def test_numpy_functions_and_arrays() -> None:
    mask = np.arange(4) > 1

    def f(x: Any) -> Any:
        return np.where(mask, np.sin(x), np.array([1.0, 2.0, 3.0, 4.0])) + np.add.reduce(x)

    x = np.arange(4, dtype="float32")
    result = structir.jit(f)(x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, np.where(mask, np.sin(x), [1, 2, 3, 4]) + 6, rtol=1e-6)


def test_python_numbers_are_weak() -> None:
    half = np.ones(2, "float16")
    result = structir.jit(lambda x, i: (x * 2 + 1.5, i * 2.0, i / 2, i + True))(half, np.arange(2))
    assert [r.dtype.name for r in result] == ["float16", "float32", "float32", "int64"]


def test_evaluation_outside_of_a_trace() -> None:
    assert snp.arange(3).dtype == np.int32
    np.testing.assert_allclose(snp.linspace(0, 1, 3), [0, 0.5, 1])
    assert snp.sum(np.ones(3)).dtype == np.float64  # arrays keep their dtype


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "structir.lax.cond"),
        (lambda x: [float(v) for v in x[0]], "astype"),
        (lambda x: np.fft.fft(x), "`numpy.fft.fft` has no counterpart"),
        (np.frompyfunc(abs, 1, 1), "has no counterpart"),
        (lambda x: x + "a", "unsupported operand"),
        (lambda x: x[7.5], "expected an integer, found 7.5"),
        (lambda x: x.__setitem__(0, 1), r"x.at\[index\].set"),
        (lambda x: x[x > 0], "traced mask"),
        (lambda x: x @ snp.ones((5, 2)), "contraction dimension mismatch"),
        (lambda x: x.sum(axis=3), "expected an axis of an array of rank 2, found 3"),
        (lambda x: x[: x.sum().astype(int)], "dynamic_slice_in_dim"),
        (lambda x: lax.scan(lambda c, v: (c[None], v), x[0], x), "changes its shape"),
        (lambda x: lax.cond(x[0, 0] > 0, lambda: x, lambda: (x, x)), "one structure"),
        (lambda x: structir.grad(lambda v: v * 2)(x), "floating-point scalar"),
        (lambda x: structir.vmap(lambda v: v, in_axes=None)(x), "at least one mapped"),
        (lambda x: structir.vmap(lambda v, w: v, in_axes=(0, 1))(x, x), "axes of one size"),
    ],
)
def test_errors_are_at_the_users_line(function: Any, message: str) -> None:
    with pytest.raises((DiagnosticError, TypeError), match=message) as caught:
        structir.trace(function, MATRIX)
    if isinstance(caught.value, DiagnosticError):
        assert __file__ in str(caught.value)


def test_a_value_of_a_finished_function_is_not_in_scope() -> None:
    kept: list[Any] = []

    def step(carry: Any, x: Any) -> Any:
        kept.append(carry)
        return carry + x, None

    def f(x: Any) -> Any:
        lax.scan(step, x[0], x)
        return kept[0]

    assert "return the value from the function" in str(error_of(f, MATRIX))


def test_parameters_without_struct_info() -> None:
    assert "structir.jit" in str(error_of(lambda x: x))
    assert "expected the StructInfo" in str(error_of(lambda x: x, "float32"))


def test_static_and_keyword_arguments() -> None:
    @structir.jit
    def f(x: Any, *, scale: float = 1.0) -> Any:
        return x * scale

    np.testing.assert_array_equal(f(np.ones(2, "float32"), scale=3.0), 3)
    power = structir.jit(lambda x, n: x**n, static_argnums=1)
    np.testing.assert_array_equal(power(np.full(2, 2, "float32"), 3), 8)


def test_loops_run_for_sizes_of_one_and_without_steps() -> None:
    total = structir.jit(lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x))
    final, outputs = total(np.ones((1,), "float32"))
    assert final == 1 and outputs.shape == (1,)
    final, outputs = total(np.ones((0,), "float32"))
    assert final == 0 and outputs.shape == (0,)


def test_the_dtype_of_a_carry_is_promoted() -> None:
    final, _ = structir.jit(lambda x: lax.scan(lambda c, v: (c + v, None), 0, x))(
        np.full(3, 0.5, "float32")
    )
    assert final.dtype == np.float32 and final == 1.5


def test_gradients_through_captured_values_and_branches() -> None:
    def loss(w: Any, x: Any) -> Any:
        y = lax.cond(x.sum() > 0, lambda v: v @ w, lambda v: -(v @ w), x)
        _, ys = lax.scan(lambda c, v: (c * 0.5 + v, c), snp.zeros(3), y)
        return (ys**2).sum()

    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(4, 3)), rng.normal(size=(5, 4))
    value = structir.jit(loss)
    gradient = structir.grad(loss)(w, x)
    direction = rng.normal(size=w.shape)
    step = 1e-4
    expected = (value(w + step * direction, x) - value(w - step * direction, x)) / (2 * step)
    np.testing.assert_allclose((gradient * direction).sum(), expected, rtol=1e-5)


def test_transforms_compose() -> None:
    def f(x: Any) -> Any:
        return snp.sum(snp.sin(x) * x[0])

    x = np.linspace(0.1, 1, 4)
    hessian = np.asarray(structir.hessian(f)(x))
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)
    step = 1e-5
    columns = [
        (structir.grad(f)(x + step * e) - structir.grad(f)(x - step * e)) / (2 * step)
        for e in np.eye(4)
    ]
    np.testing.assert_allclose(hessian, np.stack(columns), atol=1e-8)
    rows = structir.vmap(structir.grad(f))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(rows, [structir.grad(f)(x), structir.grad(f)(2 * x)], rtol=1e-9)
    of_sum = structir.grad(lambda v: structir.vmap(f)(v).sum())(np.stack([x, 2 * x]))
    np.testing.assert_allclose(of_sum, rows, rtol=1e-9)


def test_sizes_in_containers_are_fixed_until_they_change() -> None:
    function = structir.jit(lambda p, x: x @ p["w"])
    for n, m in ((5, 3), (7, 3), (9, 6), (11, 8), (13, 3)):
        p, x = {"w": np.ones((4, m), "float32")}, np.ones((n, 4), "float32")
        np.testing.assert_array_equal(function(p, x), np.full((n, m), 4))
    patterns = [known.patterns[0][0] for known in function.specialisations]
    assert patterns == [(4, 3), (4, "n6")]


def test_arguments_that_are_no_arrays() -> None:
    with pytest.raises(DiagnosticError, match="static_argnames"):
        structir.jit(lambda x, mode: x)(np.ones(2), "fast")
    with pytest.raises(DiagnosticError, match="changes its shape"):
        structir.jit(lambda x: lax.while_loop(lambda v: v.sum() < 3, lambda v: v[:2], x))(
            np.ones((3, 4))
        )


ROWS = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.mark.parametrize("options", [{"static_argnums": 1}, {"static_argnames": "n"}])
def test_static_arguments_by_position_and_by_name(options: Any) -> None:
    reshaped = structir.jit(lambda x, n: snp.reshape(x, (n, -1)), **options)
    assert reshaped(ROWS, 3).shape == reshaped(ROWS, n=3).shape == (3, 2)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"static_argnums": 2}, "use one of 0, 1"),
        ({"static_argnums": -3}, "use one of 0, 1"),
        ({"static_argnames": "q"}, "use one of 'x', 'n'"),
        ({"donate_argnums": (0, 5)}, "use one of 0, 1"),
        ({"donate_argnames": "y"}, "use one of 'x', 'n'"),
        ({"static_argnums": "n"}, "use one of 0, 1"),
        ({"donate_argnums": 1.0}, "use one of 0, 1"),
        ({"static_argnames": 1}, "use one of 'x', 'n'"),
    ],
)
def test_options_name_parameters(options: Any, hint: str) -> None:
    with pytest.raises(DiagnosticError, match=next(iter(options))) as error:
        structir.jit(lambda x, n: x, **options)
    assert error.value.diagnostics[0].hint == hint


def test_an_option_of_a_function_without_parameters() -> None:
    with pytest.raises(DiagnosticError) as error:
        structir.jit(lambda: 1, static_argnums=0)
    hint = error.value.diagnostics[0].hint
    assert hint == "omit `static_argnums`: no parameter has a position"


def test_options_of_functions_with_any_arguments() -> None:
    assert structir.jit(lambda x: x + 1, static_argnums=None)(ROWS)[1, 2] == 6
    assert structir.jit(lambda x, *n: x * n[1], static_argnums=2)(ROWS, 3, 4)[1, 2] == 20
    assert structir.jit(lambda x, **n: x * n["q"], static_argnames="q")(ROWS, q=3)[1, 2] == 15
    donated = ROWS.copy()
    result = structir.jit(lambda x, y: x + y, donate_argnames="y")(ROWS, y=donated)
    assert np.array_equal(result, 2 * ROWS) and np.shares_memory(result, donated)


def test_static_values_are_equal_only_with_their_types_and_their_contents() -> None:
    doubled = structir.jit(lambda x, n: x * 2 if n is True else x, static_argnums=1)
    assert [float(doubled(ROWS, n)[1, 2]) for n in (1, True, 1.0, True)] == [5, 10, 5, 10]
    scaled = structir.jit(lambda x, n: x * n[0], static_argnums=1)
    for factors in ([3], np.full(1, 3, "float32")):
        assert scaled(ROWS, factors)[1, 2] == 15
        factors[0] = 5
        assert scaled(ROWS, factors)[1, 2] == 25


@pytest.mark.parametrize("kind", [float, np.float32, lambda value: np.full(1, value)])
def test_static_numbers_are_compared_by_their_bits(kind: Any) -> None:
    quotient = structir.jit(lambda x, n: x / float(np.ravel(n)[0]), static_argnums=1)
    results = [float(quotient(ROWS, kind(n))[1, 2]) for n in (0.0, -0.0, np.nan, np.nan)]
    assert results[:2] == [np.inf, -np.inf] and np.isnan(results[2:]).all()
    assert len(quotient.specialisations) == 3


def test_a_static_value_that_can_neither_be_hashed_nor_copied() -> None:
    with pytest.raises(DiagnosticError, match="hashed or copied") as error:
        structir.jit(lambda x, n: x, static_argnums=1)(ROWS, [(n for n in ROWS)])
    assert "a tuple instead of a list" in str(error.value.diagnostics[0].hint)


@pytest.mark.parametrize(
    ("value", "hint"), [(1j, "x.imag"), (np.datetime64("2020-01-01"), 'x.astype("int64")')]
)
def test_numbers_of_other_kinds(value: Any, hint: str) -> None:
    with pytest.raises(DiagnosticError, match="expected arguments of numbers") as error:
        structir.jit(lambda x: x)(value)
    assert hint in str(error.value.diagnostics[0].hint)


def test_large_ints_are_an_error() -> None:
    with pytest.raises(DiagnosticError, match="expected an int of 32 bits, found 4294967296") as e:
        structir.jit(lambda x, n: x * n)(ROWS, 2**32)
    assert e.value.diagnostics[0].hint == "pass it with a dtype: `numpy.int64(4294967296)`"
    with pytest.raises(DiagnosticError, match="expected an int of 32 bits"):
        structir.jit(lambda x, n: x * n)(ROWS, 2**70)
