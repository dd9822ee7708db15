"""Text of the package and of the documents uses the standard terms of the field.

Each row below is a phrase and the term to write instead. Docstrings, comments, string literals and
prose of documents are searched; code blocks of documents and the stages of kernels are not.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TERMS = {
    r"what comes? back": "cotangent",
    r"the way back": "backward pass",
    r"(is|are|was|were) told": "is reported",
    r"tells? (of|the|which|how|where|what|why|apart|nothing)": "reports, determines, names",
    r"stands? (there|here|where|in|at|alone|beside|before|after)": "is, occurs",
    r"(is|are|was|were) said": "is declared",
    r"says? (so|of|what|which|how|that|nothing|where|it)": "declares, states",
    r"taken on trust": "assumed",
    r"taken for granted": "assumed",
    r"held against": "compared with",
    r"hand(s|ed)? on": "passes through, aliases",
    r"mended": "fixed",
    r"lets? other Python threads": "releases the GIL",
    r"past the caches": "non-temporal stores",
    r"lies? in panels": "packed",
    r"breach(es)?": "violation",
    r"struct infos?": "StructInfo",
    r"kinds? of StructInfo": "StructInfo subclass",
    r"op lines?|lines? of an op|an op's lines?": "index signature",
    r"loop letters?": "loop index",
    r"(is|are|be|been) heard|hearing": "constraint generation",
    r"laid open": "expanded, desugared",
    r"on its way to text": "being generated",
    r"speaks? of": "mentions",
    r"(lies|lie) (in|at|where|beside|apart|there)": "is in, is stored at",
    r"that is there": "existing",
    r"the house": "the package layout",
    r"(a|the|this|each|no) cards?": "GPU, device",
    r"cures?": "fix",
    r"real numbers?": "scalar",
    r"drawn at random": "sampled",
    r"in the making": "being built",
}
PHRASES = re.compile(rf"\b({'|'.join(f'(?:{phrase})' for phrase in TERMS)})\b")
# Places where the word itself is meant: file and text around it.
ALLOWED: set[tuple[str, str]] = set()


def python_files() -> list[Path]:
    return sorted((ROOT / "structir").rglob("*.py"))


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def text_of_python(path: Path) -> Iterator[tuple[int, str]]:
    """Yields comments and strings with their line numbers, of files that have a phrase."""
    text = path.read_text(encoding="utf-8")
    if not PHRASES.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for number, line in enumerate(token.string.splitlines()):
                yield token.start[0] + number, line


def text_of_page(path: Path) -> Iterator[tuple[int, str]]:
    """Yields lines of prose with their numbers."""
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def phrases_in(path: Path) -> list[str]:
    lines = text_of_page(path) if path.suffix == ".md" else text_of_python(path)
    name = path.relative_to(ROOT).as_posix()
    return [
        f"{name}:{number}: {match[0]}"
        for number, line in lines
        for match in PHRASES.finditer(line)
        if (name, match[0]) not in ALLOWED
    ]


def test_standard_terms() -> None:
    files = [*python_files(), *pages()]
    assert [phrase for path in files for phrase in phrases_in(path)] == []


def test_class_names_are_unique() -> None:
    owners: dict[str, list[str]] = {}
    for path in sorted((ROOT / "structir").rglob("*.py")):
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            owners.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in owners.items() if len(files) > 1} == {}
