"""The page of schedules lists all primitives, with the results of their examples."""

from pathlib import Path

from structir.tools.schedule_page import page

PAGE = Path(__file__).parents[2] / "docs" / "schedule.md"


def test_the_page_lists_the_primitives() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text)
