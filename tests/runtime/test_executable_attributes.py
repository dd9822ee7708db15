"""Functions of an executable are items, not attributes: the error has the edit."""

import numpy as np
import pytest

import structir
from structir.script import R


def test_the_edit_of_an_attribute_works():
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    exe = structir.compile(main)
    with pytest.raises(AttributeError, match=r"has no attribute 'main'; help: `exe\[\"main\"\]`"):
        exe.main(np.zeros(2, "float32"))
    assert exe["main"](np.zeros(2, "float32")).tolist() == [1, 1]
    with pytest.raises(AttributeError, match=r"has no attribute 'shape'$"):
        _ = exe.shape
    with pytest.raises(TypeError, match=r"`R.nn` is a namespace, not an op; `dir\(R.nn\)` lists"):
        R.nn(np.zeros(2))
