"""Help lines of arguments with a wrong shape: each edit is applied, and the call then runs."""

import re

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError

PROGRAM = """
@R.function
def main(x: R.Tensor(({shape}), "float32"), w: R.Tensor((4, 3), "float32")):
    y = R.matmul(x, w)
    return y
"""
W = np.ones((4, 3), "float32")


@pytest.mark.parametrize(
    ("declared", "shape", "expected"),
    [
        ('"n", 4', (4,), ")[None]`"),
        ('"n", 4', (4, 5), ").T`"),
        ('"n", 4', (1, 5, 4), ")[0]`"),
        ("1, 4", (4,), ")[None]`"),
        ("4,", (1, 4), ")[0]`"),
        ('"b", "n", 4', (7, 4), ")[None]`"),
        ('"n", 4', (5, 7), "an array of shape (n, 4)"),
        ("4,", (5,), "an array of shape (4,)"),
        ('"n", 4', (), "an array of shape (n, 4)"),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist], ids=["array", "list"])
@pytest.mark.parametrize("run", ["compiled", "interpreted"])
def test_edits_of_arguments(declared, shape, expected, run, kind):
    module = structir.parse(PROGRAM.format(shape=declared))
    executable = structir.compile(module)["main"]
    calls = {
        "compiled": executable,
        "interpreted": lambda *args: structir.interpret(module, "main", *args),
    }
    x = kind(np.ones(shape, "float32"))
    with pytest.raises(ShapeMismatchError) as error:
        calls[run](x, W)
    headline, help_line = str(error.value).splitlines()
    assert headline.endswith(" [E0700]")
    assert help_line.startswith("help: pass ")
    assert expected in help_line
    edit = re.search(r"`(np.*)`", help_line)
    if edit is not None:
        calls[run](eval(edit.group(1), {"np": np, "x": x}), W)
