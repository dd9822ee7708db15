"""Parsing long source in chunks gives the same result with less memory."""

import pytest

import structir
from structir.errors import DiagnosticError
from structir.printer.parser import chunked_parse

LENGTH = 3 * chunked_parse.MIN_RUN_LENGTH


def text_of(lines: list[str], indent: str = "    ") -> str:
    head = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n'
    return head + "".join(f"{indent}{line}\n" for line in lines)


def chain(length: int) -> list[str]:
    return ["v0 = R.exp(x)", *[f"v{i} = R.add(v{i - 1}, x)" for i in range(1, length)]]


def test_a_long_text_reads_as_one_module() -> None:
    module = structir.parse(text_of([*chain(LENGTH), f"return v{LENGTH - 1}"]))
    assert len(module["main"].bindings()) == LENGTH
    assert structir.structural_equal(structir.parse(module.script()), module)


def test_errors_in_a_chunk_have_their_own_line() -> None:
    lines = [*chain(LENGTH), f"return v{LENGTH - 1}"]
    lines[700] = "v700 = R.add(v699, nowhere)"
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text_of(lines))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None and diagnostic.span.line == 703
    assert "v700 = R.add(v699, nowhere)" in str(diagnostic)


@pytest.mark.parametrize("place", [300, 700, LENGTH - 1])
def test_other_lines_may_interrupt_a_run(place: int) -> None:
    lines = chain(LENGTH)
    broken = lines[place].replace(", x", ",\n        x")
    assert broken != lines[place]
    spread = lines[place].replace("(", "(\n        ").replace(", x", "\n        , x")
    for line in (broken, spread):
        given = [*lines[:place], line, *lines[place + 1 :], f"return v{LENGTH - 1}"]
        module = structir.parse(text_of(given))
        assert len(module["main"].bindings()) == LENGTH


def test_a_branch_may_be_long() -> None:
    side = ["  " + line for line in chain(LENGTH)]
    text = text_of(
        [
            "c = R.const(True)",
            "if c:",
            *side,
            f"  y = R.exp(v{LENGTH - 1})",
            "else:",
            "  y = x",
            "return y",
        ]
    )
    module = structir.parse(text)
    assert structir.structural_equal(structir.parse(module.script()), module)


def test_a_syntax_error_in_a_chunk_has_the_message_of_python() -> None:
    lines = [*chain(LENGTH), f"return v{LENGTH - 1}"]
    lines[700] = "v700 = R.add(v699, x))"
    with pytest.raises(DiagnosticError, match="syntax error") as caught:
        structir.parse(text_of(lines))
    span = caught.value.diagnostics[0].span
    assert span is not None and span.line == 703


def test_a_run_in_a_string_is_left_alone() -> None:
    lines = ['"""', *chain(LENGTH), '"""', "y = R.exp(x)", "return y"]
    assert len(structir.parse(text_of(lines))["main"].bindings()) == 1
