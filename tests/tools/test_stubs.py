"""Tests that the stubs match the packages."""

from structir.tools.stubs import stubs


def test_stubs_are_up_to_date() -> None:
    made = stubs()
    assert {path.parent.name for path in made} >= {"structir", "ir", "analysis", "passes"}
    old = [path for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert old == [], "python -m structir.tools.stubs writes them anew"
