"""What the site has beside the pages of this folder: README, notebooks, the API, and its order."""

import importlib
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import structir

ROOT = Path(__file__).resolve().parents[1]
OTHERS = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
LINK = re.compile(r"(\]\()([^)#:\s]+)([)#])")
HEADING = re.compile(r"^#{2,3} (.*)$")
FRONTENDS = ("structir.frontend.onnx", "structir.frontend.torch")

sources: dict[str, str] = {}  # where each page of the site comes from in the repository


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies elsewhere, and put everything in README's order."""
    sources.update({file.src_uri: f"docs/{file.src_uri}" for file in files})
    for origin, uri in OTHERS.items():
        _add(files, config, uri, (ROOT / origin).read_text(encoding="utf-8"), origin)
    for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        origin = path.relative_to(ROOT).as_posix()
        _add(files, config, f"notebooks/{path.stem}.md", _notebook(path), origin)
    for name, text in api_pages():
        _add(files, config, f"api/{name}.md", text, "")
    config.nav = _navigation([file.src_uri for file in files if file.src_uri.endswith(".md")])
    return files


def _add(files: Files, config: MkDocsConfig, uri: str, text: str, origin: str) -> None:
    files.append(File.generated(config, uri, content=text))
    sources[uri] = origin


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between files of the repository become links between pages."""
    home = posixpath.dirname(sources[page.file.src_uri])
    pages = {origin: uri for uri, origin in sources.items()}

    def moved(found: re.Match[str]) -> str:
        uri = pages.get(posixpath.normpath(posixpath.join(home, found[2])))
        if uri is None:
            return found[0]
        target = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"{found[1]}{target}{found[3]}"

    return LINK.sub(moved, markdown)


# ---- navigation --------------------------------------------------------------------------------


def _navigation(uris: list[str]) -> list[Any]:
    """README's headings with the pages they link to; then what README does not name."""
    left = dict.fromkeys(uris)
    left.pop("index.md")
    api = [uri for uri in uris if uri.startswith("api/")]
    by_origin = {sources[uri]: uri for uri in uris if sources[uri]}
    groups: dict[str, list[str]] = {}
    heading = ""
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        found = HEADING.match(line)
        heading = found[1] if found else heading
        for _, target, _ in LINK.findall(line):
            uri = by_origin.get(target)
            if uri in left:
                groups.setdefault(heading, []).append(uri)
                del left[uri]
    more = [uri for uri in left if uri not in api]
    return [
        "index.md",
        *({heading: pages} for heading, pages in groups.items()),
        *([{"More": more}] if more else []),
        {"API": api},
    ]


# ---- notebooks ---------------------------------------------------------------------------------


def _notebook(path: Path) -> str:
    """A notebook with the outputs that are stored in it, as Markdown."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join([part for cell in cells for part in _cell(cell)]) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
    elif source:
        yield f"```python\n{source}\n```"
        for output in cell.get("outputs", ()):
            yield _output(output)


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![](data:image/png;base64,{''.join(data['image/png']).strip()})"
    if "text/html" in data:
        return "".join(data["text/html"])
    return f"```text\n{''.join(output.get('text') or data.get('text/plain', '')).rstrip()}\n```"


# ---- the API -----------------------------------------------------------------------------------


def api_pages() -> Iterator[tuple[str, str]]:
    """A page for each public module, from the names that its façade gives."""
    homes: dict[str, str] = vars(structir)["_homes"]
    modules = [home[:-1] for home in homes.values() if home.endswith(":")]
    for name in ["structir", *sorted(dict.fromkeys(modules)), *FRONTENDS]:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        text = (module.__doc__ or "").replace("\n", " ")
        names = _names(module)
        entries = [f"::: {home}\n    options:\n      heading: {n}\n" for n, home in names]
        body = "\n".join(entries) if entries else f"::: {name}\n"
        yield name, f"# {name}\n\n{text}\n\n{body}"


def _names(module: ModuleType) -> list[tuple[str, str]]:
    """The public names of a module, and the place where each stands."""
    homes = dict(vars(module).get("_homes", {})) | vars(module).get("_HOMES", {})
    found = []
    for name, home in sorted(homes.items()):
        full = home if home.startswith("structir") else f"{module.__name__}.{home}"
        if full != f"{module.__name__}.{name}" and not full.endswith(":"):  # no pass, no module
            found.append((name, f"{full}.{name}"))
    lazy = dir(module) if "__dir__" in vars(module) and not homes else ()
    for name in (*getattr(module, "__all__", ()), *lazy):
        value = getattr(module, name)
        home = getattr(value, "__module__", "")
        if home.startswith("structir"):
            found.append((name, f"{home}.{getattr(value, '__name__', name)}"))
    documented = type | FunctionType  # of another value, no docstring tells
    return [(name, full) for name, full in found if isinstance(getattr(module, name), documented)]
