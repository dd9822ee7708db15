"""Tests of programs that hold for one value of a named size only, and for none."""

import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir import IRModule
from structir.solver.program.single_sizes import single_sizes

ONE_SIZE = {
    'x: R.Tensor(("n", 8), "float32")): return R.reshape(x, (4, 10))': ("n", 5),
    'x: R.Tensor(("n", 8), "float32"), y: R.Tensor((5, 7), "float32")): return R.matmul(y, x)': (
        "n",
        7,
    ),
    'x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, "c", 3, 3), "float32")): '
    "return R.nn.conv2d(x, w)": ("c", 3),
}


def parse(text: str) -> IRModule:
    return structir.parse("@R.function\ndef main(" + text.replace("): ", "):\n    ") + "\n")


@pytest.mark.parametrize("text", ONE_SIZE)
def test_a_program_for_one_size_has_a_warning_with_both_locations(text: str) -> None:
    name, value = ONE_SIZE[text]
    (diagnostic,) = single_sizes(parse(text))
    assert diagnostic.message.endswith(f"found one for {name} = {value} only")
    assert diagnostic.code == "E0411"
    assert diagnostic.span is not None and diagnostic.span.line == 2
    assert any(note.span is not None and note.span.line == 3 for note in diagnostic.notes)


@pytest.mark.parametrize(
    "body",
    [
        "return R.reshape(x, (-1, 4))",
        'n = T.int64()\n    R.require("n == 4")\n    return x',
        'return R.match_cast(x, R.Tensor((5, 8), "float32"))',
    ],
)
def test_a_program_that_declares_its_size_has_no_warning(body: str) -> None:
    """`R.require` and `match_cast` state the size; other programs hold for every size."""
    assert not single_sizes(parse(f'x: R.Tensor(("n", 8), "float32")):\n    {body}'))


@pytest.mark.parametrize(
    "text",
    [
        'x: R.Tensor(("n", 6), "float32")): return R.reshape(x, (7,))',
        'v: R.Tensor(("n", 2), "float32")): a: R.Tensor((2, 3), "float32") = '
        "R.split(v, 2, axis=0)[0]",
        'x: R.Tensor(("*s", 2), "float32")): a: R.Tensor(("*s", 2), "float32") = R.tile(x, (2,))',
    ],
)
def test_a_program_for_no_size_is_rejected(text: str) -> None:
    with pytest.raises(DiagnosticError):
        structir.infer(parse(f"{text}\n    return a" if "a:" in text else text))


@pytest.mark.parametrize(
    "text",
    [
        'x: R.Tensor(("n", 8), "float32")): n = T.int64()\n    return R.reshape(x, (n, 9))',
        'x: R.Tensor(("n",), "float32"), y: R.Tensor((3,), "float32")): '
        'return R.match_cast(R.concat((x, y), 0), R.Tensor((3,), "float32"))',
        'x: R.Tensor(("n",), "float32"), w: R.Tensor(("n + 3",), "float32"), '
        'y: R.Tensor((3,), "float32")): return R.matmul(w, y)',
    ],
)
def test_a_program_for_size_0_only_shows_how_to_allow_it(text: str) -> None:
    """Elements of a reshape, a concatenation and a contraction."""
    with pytest.raises(DiagnosticError) as error:
        structir.infer(parse(text))
    diagnostic = error.value.diagnostics[0]
    assert diagnostic.code == "E0410"
    assert diagnostic.hint == 'to allow 0, add `R.require("n >= 0")`'
