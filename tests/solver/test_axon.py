"""The examples of Axon, by topic: inferred signatures without annotations, and their values.

The paper is arXiv 2210.02374. Only its abstract and the beginning of its introduction were at hand,
which contain no listing: `abstract` names the claims of the abstract. The other programs and
signatures follow its description, and the cases of `solver_cases.jsonl` that come from it
(`hm-...`).
"""

from typing import Any

import numpy as np
import pytest

import structir

pytestmark = pytest.mark.filterwarnings("ignore::structir.errors.DiagnosticWarning")
HELPERS = """
@R.function(private=True)
def cell(h, x):
    n = R.tanh(R.ewise_fma(h, x, h))
    return (n, n)

@R.function(private=True)
def rowwise_softmax(e):
    z = R.exp(e)
    s = R.sum(z, axis=1)
    return R.einsum((z, R.divide(R.ones_like(s), s)), "m n; m -> m n")

@R.function
def loop(f, s, x):
    return R.scan(f, (s,), x)

@R.function
def bidir(f, g, s, t, x):
    h, y = loop(f, s, x)
    k, z = loop(g, t, R.flip(x, axis=0))
    return R.concat((y, R.flip(z, axis=0)), axis=-1)

@R.function
def residual(f, x):
    return R.ewise_fma(f(x), R.ones_like(x), x)
"""


def sequence(x: Any) -> Any:
    """Returns the states of the cell from zeros."""
    h, states = np.zeros(x.shape[1:]), []
    for each in x:
        h = np.tanh(h * each + h)
        states.append(h)
    return np.stack(states)


# a name; parameters and body; the expected signature; the values in NumPy, and arguments
A, B, C = (np.random.default_rng(k).normal(size=(2, 3, 4)[k:] + (2, 3, 4)[:k]) for k in range(3))
M, N = A[0], B[0]
EXAMPLES: dict[str, tuple[str, str, str, Any, tuple[Any, ...]]] = {
    "abstract: sizes are expressions of variables, constants and operators": (
        'x: R.Tensor(("n", "2 * n + 1"), "\'T"), y',
        "return R.ewise_fma(x, y, y)",
        "(n, 2 * n + 1) T, (n, 2 * n + 1) T -> (n, 2 * n + 1) T",
        lambda x, y: x * y + y,
        (np.ones((1, 3)), np.full((1, 3), 2.0)),
    ),
    "abstract: a shape is a sequence of sizes, a variable, or other shapes appended": (
        'x: R.Tensor(("*s", "*t"), "\'T"), y: R.Tensor(("*s",)), z: R.Tensor(("*t",))',
        'return R.ewise_fma(x, R.einsum((y, z), "*a; *b -> *a *b"), x)',
        "(*s, *t) T, (*s) T, (*t) T -> (*s, *t) T",
        lambda x, y, z: x * np.multiply.outer(y, z) + x,
        (A, A[:, 0, 0].copy(), A[0].copy()),
    ),
    "elementwise: ewise_fma": (
        "x, y, z",
        "return R.ewise_fma(x, y, z)",
        "(*r0) T, (*r0) T, (*r0) T -> (*r0) T",
        lambda x, y, z: x * y + z,
        (A, A + 1, A * A),
    ),
    "elementwise: maximum with a scalar": (
        'a: R.Tensor((), "\'T"), b',
        "return R.ewise_fma(a, b, b)",
        "() T, () T -> () T",
        lambda a, b: a * b + b,
        (np.array(2.0), np.array(3.0)),
    ),
    "products: matrices with equal batch axes": (
        "x, y",
        'return R.einsum((x, y), "*s a b; *s b c -> *s a c")',
        "(*s, a, b) T, (*s, b, c) T -> (*s, a, c) T",
        np.matmul,
        (A, np.swapaxes(A, 1, 2).copy()),
    ),
    "softmax": (
        "x",
        "e = R.exp(R.subtract(x, R.max(x, axis=0, keepdims=True)))\n"
        "    return R.divide(e, R.sum(e, axis=0, keepdims=True))",
        "(i0, *rest) T -> (i0, *rest) T",
        lambda x: np.exp(x) / np.exp(x).sum(0),
        (A,),
    ),
    "attention": (
        "q, k, v",
        'e = R.einsum((q, k), "a b; c b -> a c")\n'
        '    return R.einsum((rowwise_softmax(e), v), "a c; c d -> a d")',
        "(d0, b) T, (c, b) T, (c, d3) T -> (d0, d3) T",
        lambda q, k, v: (np.exp(q @ k.T) / np.exp(q @ k.T).sum(1, keepdims=True)) @ v,
        (M, M + 1, M[:, :2].copy()),
    ),
    "map": (
        "w, x",
        "return R.map(lambda row: R.ewise_fma(row, w, row), x)",
        "(*r0) T, (steps, *r0) T -> (steps, *r0) T",
        lambda w, x: x * w + x,
        (M, A),
    ),
    "reduce": (
        'x: R.Tensor(("n", "k"), "\'T"), z: R.Tensor((), "\'T")',
        "return R.map(lambda row: R.reduce(lambda a, b: a + b * b, z, row), x)",
        "(n, k) T, () T -> (n) T",
        lambda x, z: z + (x * x).sum(1),
        (M, np.array(1.0)),
    ),
    "loop": (
        "s, x",
        "return loop(cell, s, x)[1]",
        "(*r0) T, (steps, *r0) T -> (steps, *r0) T",
        lambda s, x: sequence(x),
        (np.zeros((3, 4)), A),
    ),
    "bidir": (
        's, u, x: R.Tensor(("t", "b", "k"), "\'T")',
        "return bidir(cell, cell, s, u, x)",
        "(b, k) T, (b, k) T, (t, b, k) T -> (t, b, 2 * k) T",
        lambda s, t, x: np.concatenate([sequence(x), sequence(x[::-1])[::-1]], -1),
        (np.zeros((3, 4)), np.zeros((3, 4)), A),
    ),
    "residual": (
        "x",
        "return residual(lambda_, x)",
        "(*r0) T -> (*r0) T",
        lambda x: np.tanh(x) + x,
        (A,),
    ),
    "polymorphism: one helper at two shapes": (
        'x: R.Tensor((2, 3), "float64"), y: R.Tensor(("n", 2, 2), "float64")',
        "return R.add(R.sum(residual(lambda_, x)), R.sum(residual(lambda_, y)))",
        "(2, 3) float64, (n, 2, 2) float64 -> () float64",
        lambda x, y: (np.tanh(x) + x).sum() + (np.tanh(y) + y).sum(),
        (np.ones((2, 3)), np.ones((1, 2, 2))),
    ),
    "append": (
        'x: R.Tensor(("d", "*s"), "\'T"), y',
        "return R.concat((x, y), axis=0)",
        "(d, *s) T, (i_1, *s) T -> (d + i_1, *s) T",
        lambda x, y: np.concatenate([x, y]),
        (A, A[:1].copy()),
    ),
}


def shown(info: Any) -> str:
    """Returns a StructInfo as `(n, *s) T`."""
    axes = info.axes if info.axes is not None else info.dims
    sizes = None if axes is None else [str(a) for a in axes]
    dtype = info.dtype or (info.dtype_var.name if info.dtype_var else "?")
    return f"({', '.join(sizes) if sizes is not None else '...'}) {dtype}".replace("'", "")


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_signatures_and_values(name: str) -> None:
    params, body, signature, f, args = EXAMPLES[name]
    local = "    @R.function\n    def lambda_(a):\n        return R.tanh(a)\n"
    text = f"{HELPERS}\n@R.function\ndef main({params}):\n"
    text += (local if "lambda_" in body else "") + f"    {body}\n"
    module = structir.infer(structir.parse(text))
    assert structir.structural_equal(structir.parse(module.script()), module)
    main = module["main"]
    infos = [shown(param.struct_info) for param in main.params]
    assert f"{', '.join(infos)} -> {shown(main.ret_struct_info)}" == signature
    np.testing.assert_allclose(structir.interpret(module, "main", *args), f(*args))
    np.testing.assert_allclose(structir.compile(module)["main"](*args), f(*args))


def test_lstm_cells_with_tuple_states() -> None:
    """The weights follow from the state through the loop."""
    module = structir.infer(
        structir.parse("""
@R.function(private=True)
def lstm(h, c, x, w, u, b):
    a = R.add(R.ewise_fma(R.matmul(x, w), R.ones_like(h), R.matmul(h, u)), b)
    i = R.sigmoid(a)
    c2 = R.ewise_fma(i, c, R.tanh(a))
    h2 = R.multiply(i, R.tanh(c2))
    return (h2, c2, h2)

@R.function
def main(
    h: R.Tensor((2, 4), "float64"), c, x: R.Tensor(("t", 2, 3)),
    w: R.Tensor(ndim=2), u: R.Tensor(ndim=2), b: R.Tensor(ndim=1),
):
    h, c, y = R.scan(lstm, (h, c), x, (w, u, b))
    return y
""")
    )
    infos = [shown(p.struct_info) for p in module["main"].params]
    expected = ["(2, 4)", "(2, 4)", "(t, 2, 3)", "(3, 4)", "(4, 4)"]
    assert infos[:5] == [f"{shape} float64" for shape in expected]
    assert shown(module["main"].ret_struct_info) == "(t, 2, 4) float64"


LSTM = """
@R.function(private=True)
def lstm(state, x, weights):
    h, c = state
    W, U, b = weights
    a = R.ewise_fma(R.matmul(x, W), R.ones_like(c), R.matmul(h, U) + b)
    i = R.sigmoid(a)
    c2 = R.ewise_fma(i, c, R.tanh(a))
    h2 = R.multiply(i, R.tanh(c2))
    return ((h2, c2), h2)

@R.function(private=True)
def loop(f, state, x, weights):
    h, c = state
    W, U, b = weights
    return R.scan(f, ((h, c),), x, ((W, U, b),))

@R.function(private=True)
def layer(state, x, weights):
    s, y = loop(lstm, state, x, weights)
    return y

@R.function(private=True)
def residual(f, x):
    return R.add(f(x), x)

@R.function(private=True)
def bidir(f, g, x):
    return R.concat((f(x), R.flip(g(R.flip(x, axis=0)), axis=0)), axis=-1)
"""


def lstm_layer(state: Any, x: Any, weights: Any) -> Any:
    """Returns the outputs of the cell in NumPy."""
    (h, c), (w, u, b), outputs = state, weights, []
    for each in x:
        a = each @ w + h @ u + b
        i = 1 / (1 + np.exp(-a))
        c = i * c + np.tanh(a)
        h = i * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize(
    ("body", "f", "signature"),
    [
        (
            "return layer(state, x, weights)",
            lstm_layer,
            ["(b, k) T", "(b, k) T", "(t, b, i) T", "(i, k) T", "(t, b, k) T"],
        ),
        (
            "@R.function\n    def f(y):\n        return layer(state, y, weights)\n"
            "    return bidir(f, f, x)",
            lambda s, x, w: np.concatenate(
                [lstm_layer(s, x, w), lstm_layer(s, x[::-1], w)[::-1]], -1
            ),
            None,
        ),
        (
            "@R.function\n    def f(y):\n        return layer(state, y, weights)\n"
            "    return residual(f, x)",
            lambda s, x, w: lstm_layer(s, x, w) + x,
            None,
        ),
    ],
    ids=["loop", "bidir", "residual"],
)
def test_lstm_cells_without_annotations_and_with_tuple_states(
    body: str, f: Any, signature: list[str] | None
) -> None:
    x_info = 'x: R.Tensor(("t", "b", "i"))' if signature else "x"
    h_info = 'h: R.Tensor(("b", "k"), "\'T")' if signature else "h"
    text = f"{LSTM}\n@R.function\ndef main({h_info}, c, {x_info}, weights):\n"
    body = body.replace("state", "(h, c)")
    module = structir.infer(structir.parse(f"{text}    {body}\n"))
    assert structir.structural_equal(structir.parse(module.script()), module)
    if signature:
        h, c, x, weights = [param.struct_info for param in module["main"].params]
        infos = [h, c, x, weights.fields[0], module["main"].ret_struct_info]
        assert [shown(info) for info in infos] == signature
    rng = np.random.default_rng(0)
    state = (rng.normal(size=(2, 4)), rng.normal(size=(2, 4)))
    x = rng.normal(size=(5, 2, 4))
    weights = (rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=4))
    expected = f(state, x, weights)
    np.testing.assert_allclose(structir.interpret(module, "main", *state, x, weights), expected)
    np.testing.assert_allclose(structir.compile(module)["main"](*state, x, weights), expected)


def test_abstract_mismatches_of_shapes_are_found_at_run_time() -> None:
    module = structir.infer(
        structir.parse("@R.function\ndef main(x, y):\n    return R.ewise_fma(x, y, y)\n")
    )
    for run in (
        structir.compile(module)["main"],
        lambda *a: structir.interpret(module, "main", *a),
    ):
        with pytest.raises(structir.errors.ShapeMismatchError, match="expected"):
            run(np.ones((2, 3)), np.ones((3, 2)))


def test_a_state_of_another_width_is_a_conflict() -> None:
    text = f"""{HELPERS}
@R.function
def main(s: R.Tensor((2, 5), "float64"), x: R.Tensor(("t", 2, 3), "float64")):
    return loop(cell, s, x)
"""
    with pytest.raises(structir.errors.StructInfoError, match="conflict"):
        structir.infer(structir.parse(text))
