"""Values of unknown shape: the help of the error is an edit after which the program works."""

import re

import pytest

import structir
from structir.errors import StructInfoError
from structir.projections import program_of


def program(params, body="return R.exp(x)"):
    module = structir.parse(f"@R.function\ndef main({params}):\n    {body}\n")
    return program_of(module["main"], {"n": 3, "d0": 2, "d1": 2})


@pytest.mark.parametrize(
    "param",
    [
        'x: R.Tensor(("*b", "n", 4), "float32")',
        'x: R.Tensor("float32")',
        'x: R.Tensor("float32", ndim=2)',
        "x: R.Tensor(ndim=1)",
    ],
)
def test_the_sizes_of_a_parameter(param):
    with pytest.raises(StructInfoError) as caught:
        program(param)
    edit = re.fullmatch("state its sizes: `(.*)`", caught.value.diagnostics[0].hint)[1]
    assert (chr(34) + "n" + chr(34) in edit) == ('"n"' in param)  # known sizes stay
    program(edit)


def test_a_value_of_the_program_becomes_a_parameter():
    with pytest.raises(StructInfoError) as caught:
        program('x: R.Tensor(("n",), "int64")', "u = R.unique(x); return u + u")
    edit = re.fullmatch("pass it as a parameter: `(.*)`", caught.value.diagnostics[0].hint)[1]
    program(edit, "return u + u")


def test_ragged_rows():
    with pytest.raises(StructInfoError) as caught:
        program('x: R.Tensor(("n", "*"), "float32")')
    assert "LowerRagged()" in caught.value.diagnostics[0].hint
