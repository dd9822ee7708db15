"""Einsum with windows, concatenation, fixed indices and several row variables in one operand."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.distributed import shard
from structir.errors import ParseError, StructInfoError, StructIRError
from structir.export.onnx import to_onnx
from structir.opdef.ocannl_subscripts import parse_specification
from structir.opdef.subscripts import SubscriptError, parse_subscripts
from tests.ops.einsum_cases import EinsumCase, annotation, cases, hidden, program

pytestmark = pytest.mark.filterwarnings("ignore:.*cannot prove the annotation")
OPEN = ("ambiguous ranks", "undetermined size")  # what operands and result leave open
Array = Any


def arrays_of(case: EinsumCase) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in case.shapes]


def concrete(case: EinsumCase) -> Any:
    """Returns the program of a case, with the ranks that its result determines."""
    result = tuple(entry.size for entry in case.result)
    operands = [annotation(shape) for shape in case.shapes]
    return structir.infer(structir.parse(program(case, operands, annotation(result))))


def loss_of(case: EinsumCase) -> Any:
    """Returns the sum of squares of a case."""
    result = annotation([entry.size for entry in case.result])
    operands = [annotation(shape) for shape in case.shapes]
    head, body = program(case, operands, 'R.Tensor((), "float64")').rsplit("    return ", 1)
    text = f"{head}    y: {result} = {body}    z = R.sum(y * y)\n    return z\n"
    return structir.infer(structir.parse(text))


def is_open(error: StructIRError) -> bool:
    return any(text in str(error) for text in OPEN)


@pytest.mark.parametrize("least", [0, 1])
def test_random_subscripts_equal_loops(least: int) -> None:
    computed = 0
    for case in cases(range(40), least):
        arrays = arrays_of(case)
        try:
            actual = structir.interpret(concrete(case), "main", *arrays)
        except StructIRError as error:
            assert is_open(error), case.text
            continue
        np.testing.assert_allclose(actual, case.expected(arrays), atol=1e-12, err_msg=case.text)
        computed += 1
    assert computed > 15


def test_random_subscripts_have_kernels_and_gradients() -> None:
    rng = np.random.default_rng(1)
    for case in cases(range(100, 108)):
        arrays, module = arrays_of(case), concrete(case)
        try:
            value = structir.compile(module)["main"](*arrays)
            gradient = structir.compile(structir.passes.Gradient()(loss_of(case)))["main_adjoint"]
        except StructIRError as error:
            assert is_open(error), case.text
            continue
        np.testing.assert_allclose(value, case.expected(arrays), atol=1e-12, err_msg=case.text)
        cotangents = gradient(*arrays)[1]
        for k, array in enumerate(arrays):
            step = 1e-6 * rng.standard_normal(array.shape)
            up = [a + step if j == k else a for j, a in enumerate(arrays)]
            down = [a - step if j == k else a for j, a in enumerate(arrays)]
            rise = (case.expected(up) ** 2).sum() - (case.expected(down) ** 2).sum()
            expected = 2 * (cotangents[k] * step).sum()
            np.testing.assert_allclose(rise, expected, rtol=1e-3, atol=1e-10, err_msg=case.text)


def test_inference_excludes_no_known_solution() -> None:
    """Sizes, ranks and results are hidden at random; a known solution must run and be equal."""
    random = Random(0)
    for case in cases(range(200, 240)):
        arrays, names = arrays_of(case), dict[int, str]()
        expected = case.expected(arrays)
        operands = [hidden(random, shape, names, 0.7) for shape in case.shapes]
        text = program(case, operands, hidden(random, expected.shape, names, 0.4))
        module = structir.infer(structir.parse(text))
        structir.parse(str(module))
        try:
            actual = structir.interpret(module, "main", *arrays)
        except StructIRError as error:
            assert is_open(error), text
            continue
        np.testing.assert_allclose(actual, expected, atol=1e-12, err_msg=text)


@pytest.mark.parametrize(
    "text",
    ["*b *o *i -> *b *i *o", "n 2*i+k; k -> n i", "i; k -> i-k+1", "i+2*k; k -> i",
     "2*i=+k; k -> i", "a *s; b *s -> a^b *s", "2:n *s -> *s 0:1", "i -> i 3 _ 2:",
     "a^3^b -> a where b == 2", "*s i -> i where elements(*s) == 4"],
)  # fmt: skip
def test_subscripts_are_printed_and_parsed(text: str) -> None:
    count = text.count(";") + 1
    equation = text.partition(" where ")[0]
    assert str(parse_subscripts(equation, count)) == equation


def test_a_sum_of_a_result_is_a_concatenation() -> None:
    assert str(parse_subscripts("a; b -> a+b", 2)) == "a; b -> a^b"
    assert str(parse_subscripts("i; k -> i+k-1", 2)) == "i; k -> i+k-1"


@pytest.mark.parametrize(
    ("text", "count", "column", "word"),
    [
        ("i j k", 1, 6, "`->`"),
        ("i j+ -> i", 1, 4, "found `+`"),
        ("i 3j -> i", 1, 3, "found `3j`"),
        ("i i+i -> i", 1, 3, "found `i+i`"),
        ("i -2*k -> i", 1, 3, "found `-2*k`"),
        ("i 0*k+j -> i", 1, 3, "found `0*k+j`"),
        ("i 4:4 -> i", 1, 3, "index below 4"),
        ("i j^ -> i", 1, 4, "found the end"),
        ("i; j; k -> i", 2, 1, "2 operand terms"),
        ("i 2*i=+k=+j -> i", 1, 3, "such as `2*i=+k`"),
        ("i $ -> i", 1, 3, "found `$`"),
    ],
)
def test_an_error_has_its_column(text: str, count: int, column: int, word: str) -> None:
    with pytest.raises(SubscriptError, match="expected") as caught:
        parse_subscripts(text, count)
    assert caught.value.start + 1 == column
    assert word in caught.value.message


@pytest.mark.parametrize(
    ("text", "column"),
    [("ij; j$ => i", 6), ("...|i...j... => i", 10), ("i+2; k => i", 1), ("ij => i%", 8)],
)
def test_an_error_of_a_specification_has_its_column(text: str, column: int) -> None:
    with pytest.raises(SubscriptError) as caught:
        parse_specification(text, text.count(";") + 1)
    assert caught.value.start + 1 == column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i j2 -> i k", "found `k`"),
        ("i^i i -> i", "expected `i` once"),
        ("i j -> i j^b where c == 3", "found `c`"),
        ("i j -> i j^b where b = 3", "conditions after `where`"),
        ("i j -> i j^b where rank(*s) >= 3", "expected a condition"),
        ("i if -> if 1", "`if`, which is reserved"),
        ("*i i_0 -> i_0 *i", "`i_0`, which is reserved"),
        ("9:n j -> j", "n >= 10"),
        ("i 3*k -> i k", "a multiple of 3"),
    ],
)
def test_messages_have_a_location_and_an_edit(text: str, message: str) -> None:
    with pytest.raises(StructInfoError) as caught:
        structir.parse(
            f'@R.function\ndef main(x: R.Tensor((3, 4))):\n    return R.einsum((x,), "{text}")'
        )
    diagnostic = caught.value.diagnostics[0]
    assert message in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.hint


def test_no_internal_name_is_printed() -> None:
    module = structir.parse(
        '@R.function\ndef main(x: R.Tensor((5, 3))):\n    return R.einsum((x,), "5 *s -> *s")'
    )
    assert "fixed" not in str(module)
    with pytest.raises(StructInfoError) as caught:
        structir.parse(str(module).replace("(5, 3)", "(4, 3)"))
    assert "fixed" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shapes", "grid"),
    [
        ("n 2*i+k; k -> n i", [(4, 9), (3,)], (2, 2)),
        ("a *s; b *s -> a+b *s", [(2, 3), (4, 3)], (3, 1)),
        ("...|i->o => ...|o->i", [(4, 3, 2)], (2, 1, 2)),
        ("2:n *s -> *s", [(4, 6)], (3,)),
        ("*o *i; *b *i -> *b *o", [(3, 2, 4), (6, 2, 4)], (3, 1)),
    ],
)
def test_shards_equal_the_whole(
    text: str, shapes: list[tuple[int, ...]], grid: tuple[int, ...]
) -> None:
    arrays = [np.random.default_rng(k).standard_normal(s) for k, s in enumerate(shapes)]
    params = ", ".join(f"x{k}: {annotation(shape)}" for k, shape in enumerate(shapes))
    names = "".join(f"x{k}, " for k in range(len(shapes)))
    result = 'R.Tensor((6, 3), "float64")' if text.startswith("*o") else ""
    head = f"@R.function\ndef main({params}){f' -> {result}' if result else ''}:\n"
    module = structir.infer(structir.parse(f'{head}    return R.einsum(({names}), "{text}")\n'))
    whole = structir.interpret(module, "main", *arrays)
    np.testing.assert_allclose(shard(module, grid=grid)(*arrays), whole, atol=1e-12)


def test_a_size_that_nothing_determines_is_an_error_with_an_edit() -> None:
    module = structir.parse(
        '@R.function\ndef main(x: R.Tensor((5,))):\n    return R.einsum((x,), "a^b -> a")'
    )
    with pytest.raises(StructIRError, match="a == 1") as caught:
        structir.interpret(module, "main", np.zeros(5, "float32"))
    assert caught.value.code == "E0310"


def test_equal_sizes_leave_ranks_ambiguous() -> None:
    head = "@R.function\ndef main(x: R.Tensor((2, 2, 2))) -> R.Tensor((2, 2, 2)):\n"
    call = 'R.einsum((x,), "*b *o *i -> *b *i *o")'
    module = structir.infer(structir.parse(f"{head}    return {call}\n"))
    with pytest.raises(StructIRError, match=r"expected one rank for \*b"):
        structir.interpret(module, "main", np.zeros((2, 2, 2), "float32"))


REQUIRED = """
@R.function
def main(x: R.Tensor(("*s", "n"), "float32")):
    R.require({})
    return R.exp(x)
"""


@pytest.mark.parametrize(
    ("conditions", "accepted", "rejected"),
    [
        ('"elements(*s) == 24"', (4, 6, 2), (4, 5, 2)),
        ('"rank(*s) >= 2"', (4, 6, 2), (6, 2)),
        ('"rank(*s) == 1", "elements(*s, n) == 12"', (4, 3), (3, 3)),
        ('"elements(*s) % 4 == 0", "n >= 2"', (2, 2, 3), (3, 3)),
        ('"rank(*s) < 1"', (3,), (2, 3)),
    ],
)
def test_conditions_on_rows_are_checked(
    conditions: str, accepted: tuple[int, ...], rejected: tuple[int, ...]
) -> None:
    module = structir.parse(REQUIRED.format(conditions))
    assert structir.structural_equal(structir.parse(str(module)), module)
    inferred = structir.infer(module)
    assert structir.structural_equal(structir.parse(str(inferred)), inferred)
    for run in (
        lambda x: structir.interpret(module, "main", x),
        structir.compile(module)["main"],
        structir.compile(inferred)["main"],
    ):
        assert run(np.zeros(accepted, "float32")).shape == accepted
        with pytest.raises(StructIRError):
            run(np.zeros(rejected, "float32"))


@pytest.mark.parametrize(
    ("conditions", "close", "shape"),
    [
        ('"rank(*s) == 1", "elements(*s) == 24"', False, (24, "n")),
        ('"elements(*s) == 24"', True, (24, "n")),
        ('"elements(*s) == 1"', True, ("n",)),
        ('"elements(*s) == 24", "rank(*s) >= 2"', True, (1, 24, "n")),
        ('"rank(*s) == 0"', False, ("n",)),
    ],
)
def test_conditions_on_rows_are_facts_of_inference(
    conditions: str, close: bool, shape: tuple[Any, ...]
) -> None:
    """A row with 24 elements is closed to one axis, a row with one element to none."""
    main = structir.infer(structir.parse(REQUIRED.format(conditions)), close=close)["main"]
    assert (
        tuple(str(d) if not isinstance(d, int) else d for d in main.params[0].struct_info.dims)
        == shape
    )


def test_contradictory_conditions_on_rows_are_an_error() -> None:
    with pytest.raises(StructInfoError):
        structir.infer(structir.parse(REQUIRED.format('"rank(*s) >= 2", "rank(*s) <= 1"')))
    with pytest.raises(ParseError, match="expected a row variable of the function, found"):
        structir.parse(REQUIRED.format('"elements(*t) == 2"'))
    with pytest.raises(ParseError, match="expected the axes of a row"):
        structir.parse(REQUIRED.format('"elements() == 2"'))


@pytest.mark.parametrize(
    ("text", "equation"),
    [("b|i->o => b|o->i", "abc->acb"), ("*s m k -> *s k m", "...ab->...ba")],
)
def test_names_are_letters_in_onnx(text: str, equation: str) -> None:
    head = f"@R.function\ndef main(x: {annotation((2, 3, 4))}):\n"
    module = structir.parse(f'{head}    return R.einsum((x,), "{text}")\n')
    (node,) = to_onnx(module).graph.node
    assert [attribute.s.decode() for attribute in node.attribute] == [equation]


def test_windows_of_symbolic_sizes_have_no_form_in_onnx() -> None:
    head = (
        '@R.function\ndef main(x: R.Tensor(("2 * n",), "float32"), y: R.Tensor(("n",), "int8")):\n'
    )
    module = structir.parse(f'{head}    return R.einsum((x,), "2*j -> j")\n')
    with pytest.raises(StructIRError, match="einsum"):
        to_onnx(module)
