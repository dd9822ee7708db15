"""The names of StructIR that docs/coming-from-tvm.md puts beside TVM's exist."""

import importlib
import re
from pathlib import Path
from typing import Any

from structir import passes
from structir.ir import registered_ops
from structir.script import I, R, T
from tests.cases import every_case

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coming-from-tvm.md"
ROW = re.compile(r"^\| (?P<tvm>[^|]*) \| (?P<here>[^|]*) \| (?P<differs>[^|]*)\|$", re.MULTILINE)
NAME = re.compile(r"`@?([A-Za-z_][\w.]*)")
STARTS = {"I": I, "R": R, "T": T, "passes": passes}


def names() -> list[str]:
    """The names in the middle column, and those of the third that are StructIR's in full."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [row for row in ROW.finditer(text) if row["here"] != "StructIR" and "---" not in row[0]]
    here = [n for row in rows for n in NAME.findall(row["here"]) if "." in n]
    return sorted({*here, *(n for n in NAME.findall(text) if n.startswith("structir."))})


def found(name: str) -> Any:
    """What a dotted name stands for: attributes of the nearest module."""
    first, *rest = name.split(".")
    value = STARTS.get(first) or importlib.import_module(first)
    path = first
    for word in rest:
        path += f".{word}"
        try:
            value = getattr(value, word)
        except AttributeError:
            value = importlib.import_module(path)
    return value


def test_as_many_ops_are_here_as_it_says() -> None:
    theirs = set((ROOT / "tests" / "data" / "relax_ops.txt").read_text(encoding="utf-8").split())
    own = {op.name for op in registered_ops()}
    counts = re.search(
        r"registers (\d+) ops for Relax. StructIR has (\d+)", PAGE.read_text(encoding="utf-8")
    )
    assert counts is not None
    assert (int(counts[1]), int(counts[2])) == (len(theirs), len(theirs & own))


def test_there_are_many() -> None:
    assert len(names()) > 80


@every_case("name", names())
def test_the_name_exists(name: str) -> None:
    assert found(name) is not None
