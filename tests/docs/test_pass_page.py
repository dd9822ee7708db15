"""The page of all passes says what the passes say."""

from pathlib import Path

from structir.tools.pass_page import page

PAGE = Path(__file__).parents[2] / "docs" / "passes.md"


def test_the_page_is_what_the_passes_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert "`merge_permutes`: Merges two consecutive permutes." in page()
