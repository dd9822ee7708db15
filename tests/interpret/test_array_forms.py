"""Arrays of other byte orders and subclasses, as constants and as results of Python functions."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.interpret import register_extern
from structir.ir import Constant
from structir.script import R

VALUES = np.arange(12, dtype="f4").reshape(3, 4)
FORMS = {
    "swapped": VALUES.astype(">f4"),
    "subclass": VALUES.view(np.matrix),
    "both": VALUES.astype(">f4").view(np.matrix),
    "reversed": VALUES[::-1].copy()[::-1],
}
CALL = """
@R.function
def main():
    y = R.call_pure_packed("form_of_test", sinfo_args=R.Tensor((3, 4), "float32"))
    return y, R.sum(y, axis=0)
"""


def is_plain(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype == np.dtype("f4") and array.dtype.isnative


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_form_of_an_array_changes_no_result(form: Any) -> None:
    constant = Constant(form)
    assert is_plain(constant.data) and (constant.data == VALUES).all()

    @R.function
    def plus(x: R.Tensor((3, 4), "float32")):
        return x + constant

    register_extern("form_of_test", lambda: form)
    module = structir.parse(CALL)
    for run in (structir.compile(module)["main"], lambda: structir.interpret(module, "main")):
        same, total = run()
        assert is_plain(same) and (same == VALUES).all() and (total == VALUES.sum(0)).all()
    assert (structir.compile(plus)["main"](form) == 2 * VALUES).all()


@pytest.mark.parametrize("dtype", ["f2", ">f8", "i2", "?", "u8", ml_dtypes.float8_e5m2])
def test_the_constant_of_an_array_has_its_dtype(dtype: Any) -> None:
    array = np.ones(2, dtype)
    assert R.const(array).data.dtype == array.dtype.newbyteorder("=")
    assert R.const(array.tolist()).data.dtype.name in ("float32", "int64", "bool")


@pytest.mark.parametrize("value", [3.0, [1, 2], None, "x"])
def test_a_constant_of_no_array_is_an_error(value: Any) -> None:
    with pytest.raises(DiagnosticError, match="expected a NumPy array, found"):
        Constant(value)
