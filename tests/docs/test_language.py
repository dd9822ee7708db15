"""The grammar of docs/language.md is that of the reader: what one takes, the other takes."""

import ast
import contextlib
import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import structir
from structir.errors import DiagnosticError
from structir.tools.generate import random_module
from tests.docs.grammar import Drawer, Recogniser, read

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
GRAMMARS = re.findall(r"^```ebnf\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
RULES = read("".join(GRAMMARS))
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"\A\s*@(R\.function|I\.ir_module|I\.kernel)\b")
OTHER_PYTHON = re.compile(r"(?!a dict).* is not supported in @")
HEAD = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n'
REFUSED = {
    "a loop": HEAD + "    for i in x:\n        x = R.exp(x)\n    return x\n",
    "a while": HEAD + "    while x:\n        x = R.exp(x)\n    return x\n",
    "two returns": HEAD + "    return x\n    return x\n",
    "no return": HEAD + "    y = R.exp(x)\n",
    "a written slice": HEAD + "    x[1:] = x\n    return x\n",
    "a lambda": HEAD + "    f = lambda y: y\n    return x\n",
    "a comprehension": HEAD + "    return [x for x in x]\n",
    "a conditional value": HEAD + "    return x if x else x\n",
    "and": HEAD + "    return x and x\n",
    "identity": HEAD + "    return x is x\n",
    "an f-string": HEAD + "    return R.call_pure_packed(f'{x}', x)\n",
    "an augmented element": HEAD + "    x[0] += x\n    return x\n",
    "a deletion": HEAD + "    del x\n    return x\n",
    "a try": HEAD + "    try:\n        y = x\n    finally:\n        y = x\n    return x\n",
    "an if without else": HEAD + "    if x:\n        y = x\n    return x\n",
    "another decorator": "@other\n" + HEAD + "    return x\n",
    "a starred parameter": HEAD.replace('"float32")):', '"float32"), *y: R.Object):')
    + "    return x\n",
    "a kernel parameter without info": "@I.kernel\ndef main(x):\n    pass\n",
    "a starred argument": HEAD + "    return R.add(*x)\n",
    "an assignment outside": "y = 3\n" + HEAD + "    return x\n",
    "another with": HEAD + "    with open:\n        y = x\n    return x\n",
    "an assigned attribute": HEAD + "    x.shape = x\n    return x\n",
    "a kernel that returns": "@I.kernel\ndef f(x: R.Tensor((3,), 'float32')):\n    return x\n",
    "a kernel over a list": "@I.kernel\ndef f(x: R.Tensor((3,), 'float32')):\n"
    "    for i in [1, 2]:\n        x[i] = x[i]\n",
}


def accepted(text: str) -> bool:
    return Recogniser(RULES, text).accepts("text")


def programs(text: str) -> Iterator[str]:
    """The programs in the Python of a document: decorated ones, and those in strings."""
    for block in PYTHON.findall(text):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list:
                first = node.decorator_list[0].lineno - 1
                lines = block.splitlines()[first : node.end_lineno]
                inside = node.col_offset  # a program in a program is part of it
                yield "\n".join(line[inside:] for line in lines) + "\n"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                with contextlib.suppress(SyntaxError):  # a piece of a text that is put together
                    ast.parse(node.value)
                    yield node.value


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_the_programs_of_the_documents_are_sentences(path: Path) -> None:
    found = [text for text in programs(path.read_text(encoding="utf-8")) if PROGRAM.match(text)]
    assert [text for text in found if not (accepted(text) or refused(text))] == []


def refused(text: str) -> bool:
    """Whether the reader, too, takes a text for something that is not of the language."""
    return bool(complaints(text))


def test_random_programs_are_sentences() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = [
            random_module(seed, size=4).script() for seed in random.Random(5).sample(range(999), 12)
        ]
    assert [text for text in texts if not accepted(text)] == []


def complaints(text: str) -> list[str]:
    """What the reader says of a text that is not of the language."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            structir.parse(text)
        except DiagnosticError as error:
            return [d.message for d in error.diagnostics]
    return []


@pytest.mark.parametrize("start", ["text", "function", "kernel"])
def test_random_sentences_are_read_as_language(start: str) -> None:
    for seed in range(60):
        text = Drawer(RULES, seed, deepest=26).sentence(start)
        wrong = [message for message in complaints(text) if OTHER_PYTHON.match(message)]
        assert wrong == [], text


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_other_python_is_refused_by_both(text: str) -> None:
    assert not accepted(text)
    assert complaints(text)


def test_every_rule_is_used() -> None:
    used = set(re.findall(r"\w+", re.sub(r'"[^"]*"', "", "".join(GRAMMARS))))
    defined = re.findall(r"^(\w+)\s+=", "".join(GRAMMARS), re.MULTILINE)
    counts = [len(re.findall(rf"\b{name}\b", "".join(GRAMMARS))) for name in defined]
    assert [n for n, count in zip(defined, counts, strict=True) if count < 2] == ["text", "axis"]
    assert used <= {
        *defined,
        *map(str, ("NAME", "NUMBER", "STRING", "NEWLINE", "INDENT", "DEDENT")),
    }


AXES = ["n", "n + 1", "2 * n // 3", "_", "*s", "*", "*:len", "3:rgb", "n:rows", "T.max(n, 4)"]
NO_AXES = ["", "**", "n n", ":rgb", "*s t", "n:", "3:4"]


@pytest.mark.parametrize("text", [*AXES, *NO_AXES])
def test_axes_in_strings(text: str) -> None:
    sentence = Recogniser(RULES, text)
    try:
        structir.parse_struct_info(f'R.Tensor(("{text}",))')
        taken = True
    except DiagnosticError:
        taken = False
    assert taken == (text in AXES)
    assert sentence.accepts_line("axis") == taken
