"""The table of TVM's spellings on the page is the one that the parser reads."""

from pathlib import Path

from structir.tools.tvm_page import page

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-tvm.md"


def test_the_page_has_the_table_of_the_parser():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text
