"""Maps over the rows of ragged tensors, and ops that are computed row by row, against NumPy."""

from itertools import pairwise

import numpy as np
import pytest

import structir
from structir import RaggedArray
from structir.errors import StructInfoError, StructIRError
from structir.passes.gradient import gradient

OFFSETS = np.array([0, 3, 3, 10, 11])


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(-1, keepdims=True)


def recurrence(x, state):
    outputs = np.zeros_like(x)
    for k, row in enumerate(x):
        outputs[k], state = state * row, np.sin(state) + row
    return state, outputs


CELL = """
@R.function(private=True)
def cell(h: R.Tensor((4,), "float64"), a: R.Tensor((4,), "float64")):
    return (R.add(R.sin(h), a), R.multiply(h, a))
"""


# programs of x (n, *, 4), s (n,) and w (4,), and the value of one row
MAPS = {
    "elementwise": ("R.map(lambda r: R.multiply(r, r), x)", lambda x, s, w: x * x),
    "of a dense operand": (
        "R.vmap(lambda r, t: R.add(R.multiply(r, w), t))(x, s)",
        lambda x, s, w: x * w + s,
    ),
    "shared": (
        "R.vmap(lambda r, v: R.matmul(r, v), in_axes=(0, None))(x, w)",
        lambda x, s, w: x @ w,
    ),
    "sum": ("R.map(lambda r: R.sum(r, axis=0), x)", lambda x, s, w: x.sum(0)),
    "fold": (
        "R.map(lambda r: R.reduce(R.add, R.zeros((4,), 'float64'), r), x)",
        lambda x, s, w: x.sum(0),
    ),
    "running sum": ("R.map(lambda r: R.cumsum(r, axis=0), x)", lambda x, s, w: x.cumsum(0)),
    "weighted": (
        "R.vmap(lambda r, t: R.cumsum(R.multiply(R.multiply(r, w), t), axis=0))(x, s)",
        lambda x, s, w: (x * w * s).cumsum(0),
    ),
    "scan": (
        "R.map(lambda r: R.scan(cls.cell, (R.zeros((4,), 'float64'),), r)[1], x)",
        lambda x, s, w: recurrence(x, 0 * w)[1],
    ),
    "last state": (
        "R.vmap(lambda r, t: R.scan(cls.cell, (R.multiply(w, t),), r)[0])(x, s)",
        lambda x, s, w: recurrence(x, w * s)[0],
    ),
    "reversed": ("R.map(lambda r: R.flip(r, axis=0), x)", lambda x, s, w: x[::-1]),
    "product of rows": (
        "R.map(lambda r: R.matmul(R.permute_dims(r), r), x)",
        lambda x, s, w: x.T @ x,
    ),
    "attention": (
        "R.map(lambda r: R.matmul(R.nn.softmax(R.matmul(r, R.permute_dims(r)), axis=-1), r), x)",
        lambda x, s, w: softmax(x @ x.T) @ x,
    ),
    "op: running sum": ("R.cumsum(x, axis=1)", lambda x, s, w: x.cumsum(0)),
    "op: running product": ("R.cumprod(x, axis=1)", lambda x, s, w: x.cumprod(0)),
    "op: reversed": ("R.flip(x, axis=1)", lambda x, s, w: x[::-1]),
    "op: rolled": ("R.roll(x, 1, axis=1)", lambda x, s, w: np.roll(x, 1, 0)),
    "op: slice": ("R.strided_slice(x, (2,), (1,), (3,))", lambda x, s, w: x[:, 1:3]),
    "op: matrix of a row": (
        "R.matmul(x, R.multiply(R.reshape(s, (n, 1, 1)), R.ones((n, 4, 3), 'float64')))",
        lambda x, s, w: x @ np.full((4, 3), s),
    ),
}


def program(body, result="y"):
    return structir.parse(
        f"{CELL * ('cls.cell' in body)}\n@R.function\n"
        "def main(x: R.Tensor(('n', '*', 4), 'float64'), s: R.Tensor(('n',), 'float64'), "
        "w: R.Tensor((4,), 'float64')):\n"
        f"    n = T.int64()\n    y = {body}\n    return {result}\n"
    )


def operands():
    rng = np.random.default_rng(0)
    x = RaggedArray(rng.standard_normal((11, 4)), OFFSETS)
    return x, rng.standard_normal(4), rng.standard_normal(4)


@pytest.mark.parametrize("name", MAPS)
def test_maps_over_rows_match_numpy(name):
    body, of_row = MAPS[name]
    module, (x, s, w) = program(body), operands()
    rows = [x.values[a:b] for a, b in pairwise(OFFSETS)]
    expected = [of_row(row, own, w) for row, own in zip(rows, s, strict=True)]
    compiled = structir.compile(module)
    assert bool(compiled.fallbacks) is ("cls.cell" in body)  # scans run on the interpreter
    for result in (structir.interpret(module, "main", x, s, w), compiled["main"](x, s, w)):
        results = result.to_list() if isinstance(result, RaggedArray) else result
        for actual, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.asarray(actual).reshape(value.shape), value, 1e-10, 1e-12)


def folded(start, row):
    for value in row:
        start = np.sin(start) + value
    return start


@pytest.mark.parametrize("axis", ["'*'", "'m'"])
@pytest.mark.parametrize(
    ("body", "of_row"),
    [
        ("R.sum(h(t))", lambda row, w: np.sin(row).sum()),
        ("R.reduce(f, w, t)", lambda row, w: folded(w, row)),
        ("R.reduce(f, h(w), h(t))", lambda row, w: folded(np.sin(w), np.sin(row))),
    ],
)
def test_mapped_closures_call_closures(body, of_row, axis):
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n", "*"), "float64"), w: R.Tensor((), "float64")):
    @R.function
    def h(q: R.Tensor(("*s",), "float64")):
        r = R.sin(q)
        return r
    @R.function
    def f(s: R.Tensor((), "float64"), e: R.Tensor((), "float64")):
        r = R.add(h(s), e)
        return r
    @R.function
    def g(t: R.Tensor(({axis},), "float64")):
        z = {body}
        return z
    y = R.map(g, x)
    return y
""")
    x, w = RaggedArray(np.arange(6.0), [0, 2, 2, 6]), np.float64(0.5)
    expected = [of_row(row, w) for row in x.to_list()]
    for run in (
        structir.compile(module)["main"],
        lambda *a: structir.interpret(module, "main", *a),
    ):
        np.testing.assert_allclose(run(x, w), expected, 1e-12)


@pytest.mark.parametrize(
    ("body", "kept", "of_row"),
    [
        ("R.multiply(t, s)", '"*"', lambda row, s: row * s),
        ("R.cumsum(R.add(t, s), axis=0)", '"*"', lambda row, s: np.cumsum(row + s)),
        ("R.sum(R.multiply(t, s), axis=0)", "", lambda row, s: (row * s).sum()),
    ],
)
def test_functions_of_rows_with_a_symbolic_length(body, kept, of_row):
    module = structir.parse(f"""
@R.function
def g(t: R.Tensor(("m",), "float64"), s: R.Tensor((), "float64")):
    return {body}

@R.function
def main(x: R.Tensor(("n", "*"), "float64"), s: R.Tensor(("n",), "float64")):
    return R.vmap(g)(x, s)
""")
    wanted = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n", {kept}), "float64")):
    return x
""")
    results = [str(m["main"].ret_struct_info) for m in (module, wanted)]
    assert results[0] == results[1]
    x, s = RaggedArray(np.arange(6.0), [0, 2, 2, 6]), np.array([1.5, 2.0, -1.0])
    expected = [of_row(np.array(row), value) for row, value in zip(x.to_list(), s, strict=True)]
    for result in (
        structir.compile(module)["main"](x, s),
        structir.interpret(module, "main", x, s),
    ):
        rows = result.to_list() if kept else result
        for row, value in zip(rows, expected, strict=True):
            np.testing.assert_allclose(row, value, 1e-12)


def test_map_over_other_rows_is_checked():
    module = structir.parse(
        "@R.function\n"
        "def main(x: R.Tensor(('n', '*'), 'float64'), y: R.Tensor(('n', '*'), 'float64')):\n"
        "    z = R.vmap(lambda a, b: R.add(R.cumsum(a, axis=0), b))(x, y)\n    return z\n"
    )
    x = RaggedArray(np.arange(11.0), OFFSETS)
    expected = np.concatenate([np.cumsum(row) + row for row in x.to_list()])
    compiled = structir.compile(module)["main"]
    np.testing.assert_allclose(compiled(x, x).values, expected)
    other = RaggedArray(np.arange(11.0), np.array([0, 2, 3, 10, 11]))
    with pytest.raises(StructIRError, match="row"):
        compiled(x, other)


def test_result_with_two_ragged_axes_is_an_error():
    module = program("R.map(lambda r: R.matmul(r, R.permute_dims(r)), x)")
    with pytest.raises(StructInfoError):
        structir.compile(module)


@pytest.mark.parametrize("name", MAPS)
def test_gradients_of_maps_match_differences(name):
    body, of_row = MAPS[name]
    module = gradient.transform(program(body, "R.sum(R.multiply(y, y))"), function="main")
    x, *others = operands()
    _, gradients = structir.compile(module)["main_adjoint"](x, *others)
    arrays = [x.values, *others]

    def loss(values, scales, w):
        rows = [values[a:b] for a, b in pairwise(OFFSETS)]
        return sum([(of_row(row, s, w) ** 2).sum() for row, s in zip(rows, scales, strict=True)])

    for k, (array, slopes) in enumerate(zip(arrays, gradients, strict=True)):
        slopes = slopes.values if isinstance(slopes, RaggedArray) else slopes
        for index in np.ndindex(*array.shape):
            ends = []
            for step in (1e-6, -1e-6):
                shifted = [each.copy() for each in arrays]
                shifted[k][index] += step
                ends.append(loss(*shifted))
            expected = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(slopes[index], expected, 1e-5, 1e-6)


def test_slices_at_ragged_indices():
    module = structir.parse(
        "@R.function\n"
        "def main(i: R.Tensor(('n', '*'), 'int64'), t: R.Tensor((20, 8), 'float32')):\n"
        "    y = R.take(t, i, axis=0)\n    return y\n"
    )
    rng = np.random.default_rng(0)
    i = RaggedArray(rng.integers(0, 20, 11), OFFSETS)
    table = rng.standard_normal((20, 8)).astype("float32")
    for result in (
        structir.interpret(module, "main", i, table),
        structir.compile(module)["main"](i, table),
    ):
        np.testing.assert_array_equal(result.values, table[i.values])
        np.testing.assert_array_equal(result.row_limits, OFFSETS[1:])


def test_sorted_rows():
    module = program("R.sort(x, axis=1)")
    x, *others = operands()
    expected = [np.sort(x.values[a:b], 0) for a, b in pairwise(OFFSETS)]
    for result in (
        structir.interpret(module, "main", x, *others),
        structir.compile(module)["main"](x, *others),
    ):
        np.testing.assert_array_equal(result.values, np.concatenate(expected))
