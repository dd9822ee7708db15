"""The call that an error proposes for an assignment to elements has NumPy's result."""

import re

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError

GENERATOR = np.random.default_rng(1)
VALUES = {
    "x": GENERATOR.normal(size=(3, 4)).astype("float32"),
    "w": GENERATOR.normal(size=(2, 3, 4)).astype("float32"),
    "v": GENERATOR.normal(size=4).astype("float32"),
    "c": GENERATOR.normal(size=3).astype("float32"),
    "m": GENERATOR.normal(size=(3, 4)) > 0,
    "r": np.array([True, False, True]),
    "i": np.array([2, 0]),
    "k": GENERATOR.integers(0, 9, (3, 4)),
}
HEAD = "@R.function\ndef main({}):\n".format(
    ", ".join(f'{n}: R.Tensor({v.shape}, "{v.dtype}")' for n, v in VALUES.items())
)
CASES = [
    *("x[0] = v", "x[-1] = v", "x[1] = 2.5", "x[:, 0] = c", "x[:, -2] = 1.0", "x[0, 1] = 3.0"),
    *("x[-1, -1] = 3.0", "x[0:2] = v", "x[0:2] = x[1:3]", "x[::2] = 0.0", "x[1:, 2:] = 7.0"),
    *("x[1:3, :2] = x[0:2, 1:3]", "x[...] = v", "x[:] = 0.0", "x[..., 1] = c", "x[-2:] = v"),
    *("x[m] = 0.0", "x[x > 0.0] = -1.0", "x[r] = 0.5", "m[r] = False", "k[k > 4] = 0"),
    *("x[i] = v", "x[i] = 0.0", "x[i, i] = 3.0", "k[1:100] = 3", "m[0] = True"),
    *("w[1, :, 2] = c", "w[0, 1:, ::2] = 1.0", "w[..., 1:3] = 0.0", "w[1] = x", "w[i - 1] = x"),
    *(
        "w[:, 1] = v",
        "w[1, 2, 3] = 9.0",
        "w[0:1, ..., -1] = c",
        "x[1:3] = x[1:3] + v",
    ),
]
GENERAL = {
    "x[None] = v": "x = R.slice_scatter(x, values, start, end, axis=0)",
    "x[::-1] = x": "x = R.slice_scatter(x, values, start, end, axis=0)",
    "x[m] = v": "x = R.where(mask, values, x)",
    "x[i, 0] = v": "x = R.index_put(x, (indices,), values)",
    "x[5] = v": "x = R.slice_scatter(x, values, start, end, axis=0)",
    "R.abs(x)[0] = v": "y = R.slice_scatter(R.abs(x), R.expand_dims(v, axis=[0]), 0, 1, axis=0)",
}


def edit_of(line, head=HEAD):
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(f"{head}    {line}\n    return x\n")
    (diagnostic,) = caught.value.diagnostics
    edit = re.fullmatch("bind the new tensor: `(.*)`", diagnostic.hint)
    assert edit is not None, diagnostic.hint
    return edit[1]


@pytest.mark.parametrize("line", CASES)
def test_the_edit_has_the_result_of_numpy(line):
    name = line[0]
    program = structir.parse(f"{HEAD}    {edit_of(line)}\n    return {name}\n")
    result = structir.interpret(program, "main", *VALUES.values())
    copies = {key: value.copy() for key, value in VALUES.items()}
    exec(line, copies)
    np.testing.assert_allclose(result, copies[name], rtol=1e-6)


@pytest.mark.parametrize("line", GENERAL)
def test_other_assignments_get_the_general_form(line):
    assert edit_of(line) == GENERAL[line]


@pytest.mark.parametrize("line", ["x[0] = v", "x[1:3] = v", "x[:, 1] = 0.0", "x[..., -1] = 2.0"])
def test_edits_with_symbolic_sizes_are_valid(line):
    head = (
        '@R.function\ndef main(x: R.Tensor(("n", 4), "float32"), v: R.Tensor((4,), "float32")):\n'
    )
    head += "    n = T.int64()\n"
    structir.parse(f"{head}    {edit_of(line, head)}\n    return x\n")


def test_a_mask_of_bools_is_replaced_by_false():
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(f"{HEAD}    y = m[m]\n    return y\n")
    assert "`R.where(m, m, False)`" in caught.value.diagnostics[0].hint
    structir.parse(f"{HEAD}    y = R.where(m, m, False)\n    return y\n")
