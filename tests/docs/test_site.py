"""The site builds without a warning, and has every page: the documents, the notebooks, the API."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import structir
from structir import passes

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
LINK = re.compile(r'href="([^"#]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    home = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(home)]
    quiet = {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    quiet |= {"SITE_SEARCH": "false", "SITE_COLOURS": "false"}  # a third of the time
    built = subprocess.run(
        command, cwd=ROOT, env=os.environ | quiet, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stderr
    return home


def linked(page: Path) -> set[str]:
    """The files that a page links to, seen from the top of the site."""
    return set(LINK.findall(page.read_text(encoding="utf-8")))


def test_every_document_and_notebook_is_a_page_that_the_first_one_leads_to(site: Path) -> None:
    pages = {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    notebooks = (ROOT / "examples" / "notebooks").glob("*.ipynb")
    pages |= {f"notebooks/{path.stem}.html" for path in notebooks}
    assert pages | {"contributing.html", "changes.html"} <= linked(site / "index.html")
    assert all((site / page).is_file() for page in pages)


def test_no_page_links_to_a_file_that_is_not_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        inside = {link for link in linked(page) if ":" not in link and page.name != "404.html"}
        assert [link for link in inside if not (page.parent / link).exists()] == []


def test_every_public_function_stands_in_the_api(site: Path) -> None:
    text = (site / "api" / "structir.html").read_text(encoding="utf-8")
    homes = vars(structir)["_homes"]
    names = [name for name, home in homes.items() if not home.endswith(":")]
    assert [name for name in names if f'id="{homes[name]}.{name}"' not in text] == []
    assert "structir.passes.base.Pass" in (site / "api" / "structir.passes.html").read_text()


def test_every_pass_stands_on_its_page(site: Path) -> None:
    text = (site / "passes.html").read_text(encoding="utf-8")
    ours = [p.name for p in passes.all_passes() if p.transform.__module__.startswith("structir.")]
    assert [name for name in ours if name not in text] == []
