"""All declared analyses are listed, and the page is generated from their declarations."""

from __future__ import annotations

from pathlib import Path

from structir.analysis import all_analyses, analysis, free_vars
from structir.analysis.declaration import ANALYSES
from structir.tools.analysis_page import page

PAGE = Path(__file__).parents[2] / "docs" / "analyses.md"


def test_the_page_lists_every_declared_analysis() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    declared = {(each.module, each.name) for each in all_analyses()}
    assert ("structir.projections.loop_accesses", "accesses") in declared
    assert all([f"`{each.name}(" in page() and each.summary for each in all_analyses()])


def test_a_declaration_returns_the_function() -> None:
    def count(program: object) -> int:
        """Counts."""
        return len(free_vars(program))  # type: ignore[arg-type]

    assert analysis(count) is count
    (listed,) = [each for each in all_analyses() if each.function is count]
    assert listed.summary == "Counts." and "program: object" in listed.signature
    del ANALYSES[f"{count.__module__}.count"]
