"""Unusual arguments are parsed or end in one diagnostic, never in an internal error."""

import pytest

import structir
from structir.errors import DiagnosticError

HEAD = "@R.function\ndef main(x: R.Tensor({}'float32')):\n    {}\n    return x\n"


@pytest.mark.parametrize("dims", ["dtype=", "('*r', 'n'), "])
@pytest.mark.parametrize("axis", ["[5]", "5", "[0, 2]", "[1, 5]", "[-9]", "[-1, -4]", "[0, 1]"])
def test_expand_dims_of_unknown_rank(dims: str, axis: str) -> None:
    module = structir.parse(HEAD.format(dims, f"y = R.expand_dims(x, axis={axis})"))
    assert module["main"].ret_struct_info.dtype == "float32"


@pytest.mark.parametrize("entries", ["**{}", "'a': 1, **{'b': 2}"])
def test_unpacked_dicts_are_rejected(entries: str) -> None:
    with pytest.raises(DiagnosticError, match="is not supported in a dict") as caught:
        structir.parse(HEAD.format("dtype=", f"R.func_attr({{{entries}}})"))
    assert len(caught.value.diagnostics) == 1
