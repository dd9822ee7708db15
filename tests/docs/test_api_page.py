"""docs/api.md lists every public name with its docstring line."""

from pathlib import Path

import pytest

import structir
from structir.tools.api_page import MODULES, entries, page

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_page_matches_docstrings() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "python -m structir.tools.api_page docs/api.md writes it"
    )


@pytest.mark.parametrize("module", MODULES)
def test_public_names_have_a_docstring_line(module: str) -> None:
    lines = dict(entries(module))
    assert lines
    assert [name for name, line in lines.items() if not line or line.startswith("dict(")] == []


def test_every_public_module_is_on_the_page() -> None:
    homes = vars(structir)["_homes"].values()
    assert {home[:-1] for home in homes if home.endswith(":")} <= set(MODULES)
