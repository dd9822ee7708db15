"""Invalid programs and their complete messages.

Each file holds a program, a line of dashes and the message. STRUCTIR_UPDATE_GOLDEN=1 before pytest
writes the messages anew; read the difference before it is committed.
"""

import os
import re
from pathlib import Path

import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import DiagnosticError

CASES = sorted((Path(__file__).parent / "wrong").glob("*.txt"))
BETWEEN = "----\n"
STRUCT_INFO = re.compile(r"\bR\.[A-Z]\w+")


def message_of(text: str) -> str:
    with pytest.raises(DiagnosticError) as caught:
        check_well_formed(structir.parse(text, "model.py"))
    return str(caught.value) + "\n"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_message(path: Path) -> None:
    program, _, expected = path.read_text().partition(BETWEEN)
    message = message_of(program)
    if os.environ.get("STRUCTIR_UPDATE_GOLDEN"):
        path.write_text(program + BETWEEN + message)
        return
    assert message == expected


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_message_has_location_op_struct_infos_and_help(path: Path) -> None:
    message = message_of(path.read_text().partition(BETWEEN)[0])
    for part in message.split("\n\n"):
        assert re.match(r"error\[E\d{4}\]: [\w.]+: ", part), "the op"
        assert re.search(r"--> model.py:\d+:\d+", part), "the line"
        assert re.search(r"\| +\^+", part), "the caret"
        assert "= help: " in part
    facts = [line for line in message.splitlines() if re.search(r" = |\| +[-^]", line)]
    assert any(map(STRUCT_INFO.search, facts)), "the StructInfos"
