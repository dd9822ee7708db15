"""Folds and scans over the rows of ragged tensors, against loops in Python."""

from itertools import pairwise

import numpy as np
import pytest

import structir
from structir import RaggedArray
from structir.errors import StructIRError
from structir.passes.gradient import gradient

OFFSETS = ([0, 3, 3, 10, 11], [0], [0, 0], [0, 4])
HEAD = """
@R.function
def main(x: R.Tensor(("n", "*", 4), "float64"), y: R.Tensor(("n", 4), "float64"),
         w: R.Tensor((4,), "float64")):
"""
SUM = "def f(s: R.Tensor((4,), 'float64'), r: R.Tensor(({}, 4), 'float64')):"


def fold(step):
    def run(x, y, w):
        state, outputs = w, np.zeros((len(x), 4))
        for k, (row, own) in enumerate(zip(x, y, strict=True)):
            state = step(state, row, own, w)
            outputs[k] = state
        return state, outputs

    return run


# programs of x (n, *, 4), y (n, 4) and w (4,), and the states after each row
FOLDS = {
    "of the whole row": (
        SUM.format("'*'"),
        "R.add(R.sin(s), R.sum(r, axis=0))",
        "R.reduce(f, w, x)",
        fold(lambda s, r, own, w: np.sin(s) + r.sum(0)),
    ),
    "of a named length": (
        SUM.format("'m'"),
        "R.multiply(s, R.sum(R.multiply(r, w), axis=0))",
        "R.reduce(f, w, x)",
        fold(lambda s, r, own, w: s * (r * w).sum(0)),
    ),
    "scan": (
        SUM.format("'m'"),
        "R.add(R.sin(s), R.sum(r, axis=0))",
        "R.scan(f, (w,), x)",
        fold(lambda s, r, own, w: np.sin(s) + r.sum(0)),
    ),
    "scan with dense and captured operands": (
        "def f(s: R.Tensor((4,), 'float64'), r: R.Tensor(('m', 4), 'float64'), "
        "own: R.Tensor((4,), 'float64'), c: R.Tensor((4,), 'float64')):",
        "R.add(R.multiply(s, c), R.multiply(R.sum(r, axis=0), own))",
        "R.scan(f, (w,), (x, y), (w,))",
        fold(lambda s, r, own, w: s * w + r.sum(0) * own),
    ),
    "of a tuple": (
        "def f(s: R.Tensor((4,), 'float64'), t: R.Tuple(R.Tensor(('m', 4), 'float64'), "
        "R.Tensor((4,), 'float64'))):",
        "R.add(R.sin(s), R.multiply(R.sum(t[0], axis=0), t[1]))",
        "R.reduce(f, w, (x, y))",
        fold(lambda s, r, own, w: np.sin(s) + r.sum(0) * own),
    ),
    "of two tensors of the same rows": (
        "def f(s: R.Tensor((4,), 'float64'), r: R.Tensor(('m', 4), 'float64'), "
        "q: R.Tensor(('m', 4), 'float64')):",
        "R.add(R.sin(s), R.sum(R.multiply(r, q), axis=0))",
        "R.scan(f, (w,), (x, R.multiply(x, w)))",
        fold(lambda s, r, own, w: np.sin(s) + (r * r * w).sum(0)),
    ),
}


def program(name, result="z"):
    head, body, call, _ = FOLDS[name]
    values = "(u, u)" if "R.scan" in call else "u"
    last = {"z": "z", "sum": "R.sum(z)"}[result]
    z = f"{call}[0]" if "R.scan" in call and result == "sum" else call
    return structir.parse(
        f"{HEAD}    @R.function\n    {head}\n        u = {body}\n        return {values}\n"
        f"    z = {z}\n    return {last}\n"
    )


def operands(offsets):
    rng = np.random.default_rng(len(offsets))
    values, count = rng.standard_normal((offsets[-1], 4)), len(offsets) - 1
    return RaggedArray(values, offsets), rng.standard_normal((count, 4)), rng.standard_normal(4)


def expected_of(name, x, y, w):
    rows = [x.values[a:b] for a, b in pairwise(x.offsets)]
    return FOLDS[name][-1](rows, y, w)


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("name", FOLDS)
def test_folds_over_rows_match_python(name, offsets):
    module, arguments = program(name), operands(offsets)
    state, outputs = expected_of(name, *arguments)
    for run in (structir.compile(module)["main"], structir.compile(structir.infer(module))["main"]):
        for result in (run(*arguments), structir.interpret(module, "main", *arguments)):
            final, stacked = result if isinstance(result, tuple) else (result, outputs)
            np.testing.assert_allclose(final, state, 1e-10, 1e-12)
            np.testing.assert_allclose(stacked, outputs, 1e-10, 1e-12)


@pytest.mark.parametrize("name", FOLDS)
def test_gradients_of_folds_match_differences(name):
    module = gradient.transform(program(name, "sum"), function="main")
    x, y, w = operands(OFFSETS[0])
    _, gradients = structir.compile(module)["main_adjoint"](x, y, w)
    for k, array in enumerate((x.values, y, w)):
        for index in [(0,) * array.ndim, (-1,) * array.ndim]:
            sides = []
            for sign in (1, -1):
                changed = [x.values.copy(), y.copy(), w.copy()]
                changed[k][index] += sign * 1e-6
                moved = RaggedArray(changed[0], OFFSETS[0])
                sides.append(expected_of(name, moved, *changed[1:])[0].sum())
            actual = gradients[k].values if k == 0 else gradients[k]
            np.testing.assert_allclose(actual[index], (sides[0] - sides[1]) / 2e-6, 1e-5, 1e-6)


def test_rows_of_other_lengths_are_an_error():
    head, body, _, _ = FOLDS["of two tensors of the same rows"]
    module = structir.parse(
        "@R.function\ndef main(x: R.Tensor(('n', '*', 4), 'float64'), "
        "y: R.Tensor(('n', '*', 4), 'float64'), w: R.Tensor((4,), 'float64')):\n"
        f"    @R.function\n    {head}\n        u = {body}\n        return u, u\n"
        "    z = R.scan(f, (w,), (x, y))\n    return z\n"
    )
    x, other = RaggedArray(np.ones((5, 4)), [0, 2, 5]), RaggedArray(np.ones((5, 4)), [0, 3, 5])
    for run in (
        structir.compile(module)["main"],
        lambda *a: structir.interpret(module, "main", *a),
    ):
        run(x, x, np.ones(4))
        with pytest.raises(StructIRError):
            run(x, other, np.ones(4))


def test_a_step_that_returns_a_row_is_an_error():
    module = structir.parse(
        "@R.function\ndef main(x: R.Tensor(('n', '*'), 'float64'), w: R.Tensor((), 'float64')):\n"
        "    @R.function\n"
        "    def f(s: R.Tensor((), 'float64'), r: R.Tensor(('m',), 'float64')):\n"
        "        u = R.add(r, s)\n        return s, u\n"
        "    z = R.scan(f, (w,), x)\n    return z[1]\n"
    )
    x = RaggedArray(np.arange(5.0), [0, 2, 5])
    for run in (structir.compile, lambda m: structir.interpret(m, "main", x, np.float64(1))):
        with pytest.raises(StructIRError):
            value = run(module)
            value["main"](x, np.float64(1))
