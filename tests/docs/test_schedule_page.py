"""The page of schedules has a section for each primitive, from its declaration."""

from pathlib import Path

from structir.tools.schedule_page import page

PAGE = Path(__file__).parents[2] / "docs" / "schedule.md"


def test_the_page_has_the_primitives() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text)
    assert "### `split(loop, factor, tail='guard')`" in text
