"""An output of a dataflow block is bound once: a second binding of its name is an error."""

import pytest

import structir
from structir.errors import DiagnosticError

BLOCKS = {
    "assignment": "y = R.add(x, x)\n        y = R.multiply(y, x)",
    "annotated": "y = R.add(x, x)\n        y: R.Tensor((4,), 'float32') = R.multiply(y, x)",
    "unpacked": "y = R.add(x, x)\n        y, z = R.split(y, 2)",
    "cast": "y = R.add(x, x)\n        y = R.match_cast(y, R.Tensor((4,), 'float32'))",
    "alias": "y = x\n        y = R.add(x, x)",
    "far apart": "y = R.add(x, x)\n" + "        v = R.exp(x)\n" * 40 + "        y = R.exp(y)",
}


@pytest.mark.parametrize("body", BLOCKS.values(), ids=BLOCKS)
def test_a_second_binding_is_rejected_with_both_locations(body: str) -> None:
    source = (
        "@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n"
        f"    with R.dataflow():\n        {body}\n        R.output(y)\n    return y\n"
    )
    with pytest.raises(DiagnosticError, match="`y` is bound twice") as caught:
        structir.parse(source)
    (diagnostic,) = caught.value.diagnostics
    (note,) = [each for each in diagnostic.notes if each.span is not None]
    assert diagnostic.label == "bound again here"
    assert (note.text, note.span.line) == ("bound here first", 4)
    assert diagnostic.span.line > note.span.line


def test_other_names_may_be_bound_again() -> None:
    module = structir.parse(
        "@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n"
        "    with R.dataflow():\n        v = R.exp(x)\n        v = R.exp(v)\n"
        "        y = R.exp(v)\n        R.output(y)\n"
        "    with R.dataflow():\n        y = R.exp(y)\n        R.output(y)\n    return y\n"
    )
    assert module["main"].ret_struct_info.dtype == "float32"


UNPACKED = {
    "one statement": ("y, y = R.split(x, 2)", 4, 4),
    "two statements": ("y, u = R.split(x, 2)\n        v, y = R.split(x, 2)", 4, 5),
}


@pytest.mark.parametrize(("body", "first", "second"), UNPACKED.values(), ids=UNPACKED)
def test_a_second_unpacking_is_rejected(body: str, first: int, second: int) -> None:
    source = (
        "@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n"
        f"    with R.dataflow():\n        {body}\n        R.output(y)\n    return y\n"
    )
    assert locations(source) == (first, second)


def test_a_second_binding_in_a_branch_is_rejected() -> None:
    source = (
        "@R.function\ndef main(x: R.Tensor((4,), 'float32'), f: R.Tensor((), 'bool')):\n"
        "    if f:\n        with R.dataflow():\n            y = R.exp(x)\n"
        "            y = R.sin(y)\n            R.output(y)\n"
        "    else:\n        y = x\n    return y\n"
    )
    assert locations(source) == (5, 6)


def locations(source: str) -> tuple[int, int]:
    """Returns the lines of the first and second binding in the error of a program."""
    with pytest.raises(DiagnosticError, match="`y` is bound twice") as caught:
        structir.parse(source)
    (diagnostic,) = caught.value.diagnostics
    (note,) = [each for each in diagnostic.notes if each.span is not None]
    return note.span.line, diagnostic.span.line
