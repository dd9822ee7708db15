"""Tests of `R.map`, `R.vmap` and `R.reduce` against programs without them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import structir
from structir import passes
from structir.errors import ShapeMismatchError, StructIRError
from structir.ir.module import IRModule
from structir.passes.expand_combinators import expand_combinators
from structir.passes.gradient import gradient

RANDOM = np.random.default_rng(0)
X, W, V = RANDOM.normal(size=(5, 3)), RANDOM.normal(size=(3, 4)), RANDOM.normal(size=3)
CUBE = RANDOM.normal(size=(2, 4, 3))

HELPERS = """
@R.function(private=True)
def act(x: R.Tensor(("k",), "float64")):
    return R.tanh(R.multiply(x, x))

@R.function(private=True)
def outer(x, w):
    return R.matmul(x, w)

@R.function(private=True)
def compose(f, g):
    a, b = f
    c, d = g
    return (R.multiply(a, c), R.add(R.multiply(b, c), d))

@R.function(private=True)
def cell(h: R.Tensor((), "float64"), x: R.Tensor((), "float64")):
    n = R.tanh(R.add(h, x))
    return (n, n)

@R.function(private=True)
def branches(x: R.Tensor(("k",), "float64"), b: R.Tensor((), "float64")):
    if R.greater(b, R.const(0.0, "float64")):
        s = R.scan(cell, (b,), x)
        y = R.sum(s[1])
    else:
        y = R.sum(R.multiply(x, x))
    return y

@R.function(private=True)
def rows(x: R.Tensor(("m", "k"), "float64"), b: R.Tensor((), "float64")):
    return R.vmap(lambda r, i: R.reduce(R.add, i, r), in_axes=(0, None))(x, b)
"""

Array = np.ndarray[Any, Any]


def log_add_rows(x: Array, i: Array) -> Array:
    for row in x:
        i = np.logaddexp(i, row)
    return i


def affine(x: Array, y: Array) -> Array:
    a, b = np.ones(3), np.zeros(3)
    for c, d in zip(x, y, strict=True):
        a, b = a * c, b * c + d
    return a + b


def branches(x: Array, b: Array) -> Array:
    results = []
    for row, start in zip(x, b, strict=True):
        states, h = [], start
        for each in row:
            h = np.tanh(h + each)
            states.append(h)
        results.append(sum(states) if start > 0 else (row * row).sum())
    return np.array(results)


N_K, K = 'x: R.Tensor(("n", "k"), "float64")', 'i: R.Tensor(("k",), "float64")'
Y, K_M = 'y: R.Tensor(("n", "k"), "float64")', 'w: R.Tensor(("k", "m"), "float64")'
CASES: dict[str, tuple[str, str, Callable[..., Any], tuple[Array, ...]]] = {
    "map": (N_K, "R.map(act, x)", lambda x: np.tanh(x * x), (X,)),
    "map of an axis": (N_K, "R.map(act, x, axes=1)", lambda x: np.tanh(x * x).T, (X,)),
    "map of axes": (
        'x: R.Tensor(("n", "m", "k"), "float64")',
        "R.map(lambda a: R.multiply(a, a), x, axes=(2, -3))",
        lambda x: np.einsum("nmk->knm", x * x),
        (CUBE,),
    ),
    "map of several operands": (
        f"{N_K}, {Y}",
        "R.map(lambda a, b: R.sum(R.multiply(a, b)), x, y)",
        lambda x, y: (x * y).sum(1),
        (X, X[::-1].copy()),
    ),
    "vmap": (
        f"{N_K}, {K_M}",
        "R.vmap(outer, in_axes=(0, None))(x, w)",
        lambda x, w: x @ w,
        (X, W),
    ),
    "vmap of axes": (
        f"{N_K}, {K_M}",
        "R.vmap(outer, in_axes=(-2, None), out_axes=-1)(x, w)",
        lambda x, w: (x @ w).T,
        (X, W),
    ),
    "vmap with a captured tensor": (
        f"{N_K}, {K}",
        "R.vmap(lambda r: R.add(r, R.exp(i)))(x)",
        lambda x, i: x + np.exp(i),
        (X, V),
    ),
    "reduce add": (f"{N_K}, {K}", "R.reduce(R.add, i, x)", lambda x, i: i + x.sum(0), (X, V)),
    "reduce maximum": (
        f"{N_K}, {K}",
        "R.reduce(R.maximum, i, x)",
        lambda x, i: np.maximum(i, x.max(0, initial=-np.inf)),
        (X, V),
    ),
    "reduce without a reduction": (
        f"{N_K}, {K}",
        "R.reduce(R.log_add_exp, i, x)",
        log_add_rows,
        (X, V),
    ),
    "reduce of tuples": (
        f"{N_K}, {Y}",
        'R.reduce(lambda a, b: R.add(a, b), R.zeros((k,), "float64"),'
        " R.map(lambda r: R.multiply(r, r), R.add(x, y)))",
        lambda x, y: ((x + y) ** 2).sum(0),
        (X, X + 1),
    ),
    "branches and loops": (
        f'{N_K}, b: R.Tensor(("n",), "float64")',
        "R.vmap(branches)(x, b)",
        branches,
        (X, np.array([0.5, -0.5, 0.1, -0.1, 1.0])),
    ),
    "vmap of vmap of reduce": (
        'x: R.Tensor(("n", "m", "k"), "float64"), b: R.Tensor(("n",), "float64")',
        "R.vmap(rows)(x, b)",
        lambda x, b: x.sum(2) + b[:, None],
        (CUBE, np.array([1.0, 2.0])),
    ),
}


def helpers(body: str) -> str:
    """Returns the helpers that a body calls, also in calls."""
    parts = [
        "@R.function(private=True)" + part for part in HELPERS.split("@R.function(private=True)")
    ]
    names = {part.split("def ")[1].split("(")[0]: part for part in parts[1:]}
    used = [name for name in names if f"{name}" in body]
    more = [name for name in names if any(name in names[each] for each in used)]
    return "".join([part for name, part in names.items() if name in (*used, *more)])


def program(params: str, body: str) -> IRModule:
    """Returns a program that computes a value, and a weighted sum of it."""
    text = f"""{helpers(body)}
@R.function
def main({params}):
    return {body}

@R.function
def loss({params}):
    y = {body}
    return R.sum(R.multiply(y, R.sin(y)))
"""
    module = structir.parse(text)
    assert structir.structural_equal(structir.parse(module.script()), module)
    return module


def slopes(f: Callable[..., Any], args: tuple[Array, ...]) -> list[Array]:
    """Returns the gradient of the weighted sum by central differences."""

    def loss(*values: Array) -> float:
        y = f(*values)
        return float((y * np.sin(y)).sum())

    gradients = []
    for k, arg in enumerate(args):
        gradient_of_arg = np.zeros_like(arg)
        for point in np.ndindex(*arg.shape):
            step = np.zeros_like(arg)
            step[point] = 1e-6
            ends = [loss(*args[:k], arg + sign * step, *args[k + 1 :]) for sign in (1, -1)]
            gradient_of_arg[point] = (ends[0] - ends[1]) / 2e-6
        gradients.append(gradient_of_arg)
    return gradients


@pytest.mark.parametrize("name", CASES)
def test_combinators_equal_numpy(name: str) -> None:
    params, body, f, args = CASES[name]
    module = program(params, body)
    compiled, inferred = structir.compile(module), structir.infer(module)
    assert structir.structural_equal(structir.infer(inferred), inferred)
    runs = [partial(structir.interpret, m, "main") for m in (module, inferred)]
    expected = f(*args)
    for run in (*runs, compiled["main"]):
        result = run(*args)
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert not [fallback for fallback in compiled.fallbacks if fallback.startswith("main")]
    adjoint = structir.compile(gradient.transform(inferred, function="loss"))["loss_adjoint"]
    for result, expected in zip(adjoint(*args)[1], slopes(f, args), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["map", "vmap", "reduce add", "reduce maximum"])
@pytest.mark.parametrize("empty", [True, False])
def test_axes_may_be_empty(name: str, empty: bool) -> None:
    params, body, f, (x, *others) = CASES[name]
    args = (x[:0] if empty else x[:1], *others)
    module = program(params, body)
    adjoint = gradient.transform(structir.infer(module), function="loss")
    for run in (partial(structir.interpret, module, "main"), structir.compile(module)["main"]):
        result, expected = run(*args), f(*args)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected)
    for result, arg in zip(structir.compile(adjoint)["loss_adjoint"](*args)[1], args, strict=True):
        assert result.shape == arg.shape and np.isfinite(result).all()


def test_a_fold_of_nothing_is_the_initial_value() -> None:
    params, body, _, (x, i) = CASES["reduce without a reduction"]
    adjoint = gradient.transform(program(params, body), function="loss")
    value, (to_x, to_i) = structir.compile(adjoint)["loss_adjoint"](x[:0], i)
    assert to_x.shape == (0, 3)
    np.testing.assert_allclose(value, (i * np.sin(i)).sum())
    np.testing.assert_allclose(to_i, np.sin(i) + i * np.cos(i))


def test_a_map_of_an_elementwise_function_is_the_kernel_of_the_function() -> None:
    params, body, _, _ = CASES["map"]
    direct = f"@R.function\ndef main({params}):\n    return R.tanh(R.multiply(x, x))\n"
    mapped = expand_combinators(
        structir.parse(f"{helpers(body)}\n@R.function\ndef main({params}):\n    return {body}")
    )
    sources = [structir.compile(m).source("main") for m in (mapped, structir.parse(direct))]
    code = [[line for line in s.splitlines() if not line.startswith("#")] for s in sources]
    assert code[0] == code[1]


@pytest.mark.parametrize(
    ("op", "reduction"),
    [("add", "sum"), ("multiply", "prod"), ("maximum", "max"), ("minimum", "min")],
)
def test_folds_with_an_associative_op_are_its_reduction(op: str, reduction: str) -> None:
    module = expand_combinators(program(f"{N_K}, {K}", f"R.reduce(R.{op}, i, x)"))
    text = str(module["main"])
    assert f"R.{reduction}(x, axis=[0])" in text and f"R.{op}(i, " in text and "scan" not in text


def test_rows_and_unknown_ranks_are_mapped_at_each_rank() -> None:
    module = structir.parse("""
@R.function(private=True)
def f(x: R.Tensor(("*s",), "float64"), w: R.Tensor(("*s",), "float64")):
    return R.tanh(R.multiply(x, w))

@R.function
def rows(x: R.Tensor(("n", "*s"), "float64"), w: R.Tensor(("*s",), "float64")):
    return R.vmap(f, in_axes=(0, None))(x, w)

@R.function
def last(x: R.Tensor(("*s", "n"), "float64"), w: R.Tensor(("*s",), "float64")):
    return R.vmap(f, in_axes=(-1, None), out_axes=-1)(x, w)

@R.function
def fold(x: R.Tensor(("n", "*s"), "float64"), w: R.Tensor(("*s",), "float64")):
    return R.reduce(R.add, w, x)
""")
    assert str(module["last"].ret_struct_info) == 'R.Tensor(("*s", n), dtype="float64")'
    compiled = structir.compile(module)
    for shape in [(), (3,), (2, 4)]:
        x, w = RANDOM.normal(size=(5, *shape)), RANDOM.normal(size=shape)
        for run in (lambda name, *args: compiled[name](*args), partial(structir.interpret, module)):
            np.testing.assert_allclose(run("rows", x, w), np.tanh(x * w))
            moved = np.moveaxis(x, 0, -1).copy()
            np.testing.assert_allclose(run("last", moved, w), np.moveaxis(np.tanh(x * w), 0, -1))
            np.testing.assert_allclose(run("fold", x, w), w + x.sum(0))


@pytest.mark.parametrize(
    ("params", "body", "expected"),
    [
        ("x, y: R.Tensor((4, 5, 6), 'float32')", "R.vmap(outer)(x, y)", "(4, *s, 5)"),
        (
            "x: R.Tensor((7, 5), 'float32'), y: R.Tensor(ndim=2)",
            "R.vmap(outer, in_axes=(1, None))(x, y)",
            "(7, d0)",
        ),
        ("x: R.Tensor((7, 2, 5), 'float32'), y", "R.reduce(act2, y, x)", "(2, 5)"),
        (
            "x, y: R.Tensor((2, 5), 'float32')",
            "R.map(lambda a: R.matmul(a, y), x)",
            "(steps, *s, 2)",
        ),
    ],
)
def test_inference_completes_operands(params: str, body: str, expected: str) -> None:
    module = structir.infer(
        structir.parse(f"""
@R.function
def outer(x, w):
    return R.matmul(x, w)

@R.function
def act2(x: R.Tensor(("*s",)), y: R.Tensor(("*s",))):
    return R.maximum(x, y)

@R.function
def main({params}):
    return {body}
""")
    )
    infos = [str(p.struct_info) for p in module["main"].params]
    assert any(expected in info.replace('"', "") for info in infos), infos
    assert all('"float32"' in info for info in infos)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("R.map(x, x)", "E0225", "expected a function of the program"),
        ("R.vmap(act)", "E0225", "expected a function and operands"),
        ("R.vmap(act, in_axes=(0, 1))(x)", "E0225", "for each of 1 operands"),
        ("R.vmap(act, in_axes=None)(x)", "E0225", "found only None"),
        ("R.vmap(act, axis=0)(x)", "E0225", "unexpected keyword argument `axis`"),
        ("R.vmap(act)(x=x)", "E0225", "expected operands by position"),
        ("R.map(lambda a, b: a, x)", "E0225", "expected a function of 1 parameter"),
        ("R.map(act, x, axes=())", "E0225", "expected different integers"),
        ("R.reduce(act, x)", "E0225", "found 2 arguments"),
        ("R.map(act, x, axes=3)", "E0226", "axis 3 is out of range"),
        ("R.vmap(pair, in_axes=(0, 1))(z, z)", "E0226", "found 2 and 3"),
        ("R.reduce(lambda a, b: R.sum(a), x, R.expand_dims(x, axis=0))", "E0227", "accumulated"),
        ("R.map(lambda a: R.shape_of(a), x)", "E0228", "expected tensors as result"),
    ],
)
def test_invalid_calls_are_errors_with_an_edit(body: str, code: str, message: str) -> None:
    with pytest.raises(StructIRError, match=message) as caught:
        structir.parse(f"""{HELPERS}
@R.function(private=True)
def pair(x, y):
    return R.add(x, y)

@R.function
def main(x: R.Tensor(("n", 3), "float64"), z: R.Tensor((2, 3), "float64")):
    return {body}
""")
    assert code in str(caught.value) and "help:" in str(caught.value)


def test_sizes_that_differ_are_errors_of_a_run() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float64"), y: R.Tensor(("m",), "float64")):
    return R.map(lambda a, b: R.add(a, b), x, y)
""")
    for run in (partial(structir.interpret, module, "main"), structir.compile(module)["main"]):
        with pytest.raises(ShapeMismatchError):
            run(np.ones(3), np.ones(4))
        np.testing.assert_allclose(run(np.ones(3), np.ones(3)), 2 * np.ones(3))


def test_a_map_that_has_no_batched_form_runs_as_a_loop() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 3), "float64")):
    return R.map(lambda a: R.sum(R.unique(a)), x)
""")
    x = np.array([[1.0, 1, 2], [3, 3, 3]])
    for run in (partial(structir.interpret, module, "main"), structir.compile(module)["main"]):
        assert run(x).tolist() == [3.0, 3.0]


def test_functions_that_take_functions_are_differentiated() -> None:
    module = structir.parse("""
@R.function
def residual(f, x):
    return R.add(f(x), x)

@R.function
def stacked(f, g, x):
    y = residual(f, x)
    return R.map(g, y)

@R.function
def main(x: R.Tensor(("n", 3), "float64"), w: R.Tensor((3,), "float64")):
    @R.function
    def scaled(a):
        return R.multiply(a, w)
    @R.function
    def square(a):
        return R.multiply(a, a)
    return R.sum(stacked(scaled, square, x))
""")
    adjoint = structir.compile(gradient.transform(structir.infer(module)))["main_adjoint"]
    value, (to_x, to_w) = adjoint(X, V)
    y = X * V + X
    np.testing.assert_allclose(value, (y * y).sum())
    np.testing.assert_allclose(to_x, 2 * y * (1 + V))
    np.testing.assert_allclose(to_w, (2 * y * X).sum(0))


@pytest.mark.parametrize("like", ["R.Tensor(('*s',), \"'T\")", "R.Tensor(('n',))"])
def test_maps_convert_to_a_dtype_that_only_the_run_knows(like: str) -> None:
    module = structir.parse(f"""
@R.function
def main(x: {like}, z: R.Tensor((4, 3), "float32")):
    @R.function
    def f(y: R.Tensor((3,), "float32")):
        return R.exp(R.astype_like(y, x))
    return R.map(f, z)
""")
    expanded = expand_combinators(module)
    assert expanded["main"].ret_struct_info == module["main"].ret_struct_info
    assert "R.map" not in expanded.script()
    operands = np.ones(2, "float16"), np.ones((4, 3), "float32")
    expected = np.exp(operands[1].astype("float16"))
    for program in (module, passes.Decompose()(expanded)):
        result = structir.interpret(program, "main", *operands)
        assert result.dtype == expected.dtype
        assert np.array_equal(result, expected)


CAPTURES = """
    @R.function
    def step(h, a):
        n = R.tanh(R.add(R.multiply(h, w), a))
        return (n, (R.sum(n)))
    r = R.scan(step, (w,), x)
    return R.sum(r[1])
"""
NESTED_LOOPS = """
    y = R.map(lambda r: R.negative(r), x)
    @R.function
    def outer(h, a):
        @R.function
        def inner(s, b):
            return (R.add(R.multiply(s, b), a), y)
        t = R.scan(inner, (R.multiply(h, a),), w)
        return (t[0], R.sum(t[1], axis=0))
    r = R.scan(outer, (w,), x)
    return R.sum(R.multiply(r[1], R.sum(r[0])))
"""
MAP_AFTER_MAP = """
    y = R.map(lambda r: R.multiply(r, w), x)
    @R.function
    def fold(a, b):
        c, d = a
        e, f = b
        return (R.multiply(c, e), R.add(R.tanh(d), R.multiply(f, y[0, ...])))
    t = R.reduce(fold, (w, w), (y, y))
    return R.sum(t[1])
"""
CONDITIONAL = """
    c = R.greater(R.sum(x), R.sum(w))
    if c:
        y = R.multiply(x, w)
    else:
        y = R.negative(x)
    return R.sum(R.multiply(y, y))
"""
LAST_STATE = """
    @R.function
    def step(h, a):
        n = R.multiply(h, a)
        return (n, n)
    r = R.scan(step, (w,), x)
    return R.sum(r[0])
"""


@pytest.mark.parametrize("dtype", ["float64", "'T"])
@pytest.mark.parametrize(
    "body", [CAPTURES, NESTED_LOOPS, MAP_AFTER_MAP, CONDITIONAL, LAST_STATE], ids=range(5)
)
def test_gradients_of_closures_without_annotations_match_differences(body: str, dtype: str) -> None:
    params = f'x: R.Tensor(("n", 3), "{dtype}"), w: R.Tensor((3,), "{dtype}")'
    module = structir.parse(f"@R.function\ndef main({params}):{body}")
    value, gradients = structir.interpret(gradient(module), "main_adjoint", X, V)
    steps = RANDOM.normal(size=X.shape), RANDOM.normal(size=V.shape)

    def loss(scale: float) -> float:
        moved = X + scale * steps[0], V + scale * steps[1]
        return float(structir.interpret(module, "main", *moved))

    np.testing.assert_allclose(value, loss(0))
    difference = (loss(1e-6) - loss(-1e-6)) / 2e-6
    along = sum([(g * s).sum() for g, s in zip(gradients, steps, strict=True)])
    np.testing.assert_allclose(along, difference, rtol=1e-5)
