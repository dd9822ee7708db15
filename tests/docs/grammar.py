"""Grammars in EBNF over Python's tokens: read, used to recognise a text, and to draw one."""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Sequence
from random import Random

import attrs

KINDS = {
    tokenize.NAME: "NAME",
    tokenize.NUMBER: "NUMBER",
    tokenize.STRING: "STRING",
    tokenize.NEWLINE: "NEWLINE",
    tokenize.INDENT: "INDENT",
    tokenize.DEDENT: "DEDENT",
}
SKIPPED = (tokenize.NL, tokenize.COMMENT, tokenize.ENCODING, tokenize.ENDMARKER)
WORDS = frozenset(keyword.kwlist)
FORMATTED = re.compile(r"\w*[fF]\w*['\"]")
PIECE = re.compile(r'"[^"]+"|\w+|[{}\[\]()|;=]|\s+')


@attrs.frozen
class Several:
    """`{ x }` or `[ x ]`."""

    inner: Choice
    many: bool


@attrs.frozen
class Choice:
    """Alternatives, each a sequence."""

    ways: tuple[tuple[str | Several | Choice, ...], ...]


def read(text: str) -> dict[str, Choice]:
    """The rules of a grammar."""
    pieces = [piece for piece in PIECE.findall(text) if piece.strip()]
    rules, at = {}, 0
    while at < len(pieces):
        assert pieces[at + 1] == "=", pieces[at : at + 3]
        rules[pieces[at]], at = _choice(pieces, at + 2)
        assert pieces[at] == ";", pieces[at - 3 : at + 3]
        at += 1
    return rules


def _choice(pieces: Sequence[str], at: int) -> tuple[Choice, int]:
    ways: list[list[str | Several | Choice]] = [[]]
    while pieces[at] not in (";", ")", "]", "}"):
        piece = pieces[at]
        at += 1
        if piece == "|":
            ways.append([])
        elif piece in ("(", "[", "{"):
            inner, at = _choice(pieces, at)
            ways[-1].append(inner if piece == "(" else Several(inner, piece == "{"))
            at += 1
        else:
            ways[-1].append(piece)
    return Choice(tuple(map(tuple, ways))), at


def tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of each token of a program."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            kind = KINDS.get(token.type, "")
            other = token.string in WORDS or FORMATTED.match(token.string)
            found.append(("" if other else kind, token.string))
    return found


class Recogniser:
    """All ends that a rule can reach from a place, remembered."""

    def __init__(self, rules: dict[str, Choice], text: str) -> None:
        self.rules, self.tokens = rules, tokens(text)
        self.known: dict[tuple[str, int], frozenset[int]] = {}
        self.furthest = 0

    def accepts(self, start: str) -> bool:
        """Whether the whole text is a sentence of a rule."""
        return len(self.tokens) in self.ends(start, 0)

    def accepts_line(self, start: str) -> bool:
        """Whether the text is a sentence of a rule that ends no line."""
        ended = bool(self.tokens) and self.tokens[-1][0] == "NEWLINE"
        return len(self.tokens) - ended in self.ends(start, 0)

    def ends(self, rule: str | Several | Choice, at: int) -> frozenset[int]:
        match rule:
            case Choice(ways):
                return frozenset().union(*(self.sequence(way, at) for way in ways))
            case Several(inner, many):
                return self.repeated(inner, at) if many else self.ends(inner, at) | {at}
            case str() if rule in self.rules:
                key = rule, at
                if key not in self.known:
                    self.known[key] = self.ends(self.rules[rule], at)
                return self.known[key]
        if at < len(self.tokens) and self.fits(rule, *self.tokens[at]):
            self.furthest = max(self.furthest, at + 1)
            return frozenset((at + 1,))
        return frozenset()

    def fits(self, rule: str, kind: str, text: str) -> bool:
        return text == rule[1:-1] if rule.startswith('"') else kind == rule

    def sequence(self, way: Sequence[str | Several | Choice], at: int) -> frozenset[int]:
        ends = frozenset((at,))
        for part in way:
            ends = frozenset(end for place in ends for end in self.ends(part, place))
        return ends

    def repeated(self, inner: Choice, at: int) -> frozenset[int]:
        found, todo = {at}, [at]
        while todo:
            new = self.ends(inner, todo.pop()) - found
            found |= new
            todo += new
        return frozenset(found)


SAMPLES = {
    "NAME": ("x", "y", "n", "main"),
    "NUMBER": ("1", "2", "0.5"),
    "STRING": ('"n"', '"float32"', '"a word"'),
}


class Drawer:
    """Random sentences of a grammar; deep ones end by their shortest way."""

    def __init__(self, rules: dict[str, Choice], seed: int, deepest: int = 40) -> None:
        self.rules, self.random, self.deepest = rules, Random(seed), deepest
        self.depths = self._depths()

    def sentence(self, start: str) -> str:
        """The text of one sentence."""
        lines, line, indent = [], list[str](), 0
        for token in self.draw(start, 0):
            if token == "INDENT":
                indent += 1
            elif token == "DEDENT":
                indent -= 1
            elif token == "NEWLINE":
                lines.append("    " * indent + " ".join(line))
                line = []
            else:
                line.append(token)
        return "\n".join([*lines, " ".join(line)])

    def draw(self, rule: str | Several | Choice, depth: int) -> Iterator[str]:
        match rule:
            case Choice(ways):
                yield from self.way(ways, depth)
            case Several(inner, many):
                for _ in range(self.random.choice((0, 1, 2) if many else (0, 1))):
                    if depth < self.deepest:
                        yield from self.draw(inner, depth + 1)
            case str() if rule in self.rules:
                yield from self.draw(self.rules[rule], depth + 1)
            case _:
                yield (
                    rule[1:-1] if rule[0] == '"' else self.random.choice(SAMPLES.get(rule, (rule,)))
                )

    def way(self, ways: Sequence[Sequence[str | Several | Choice]], depth: int) -> Iterator[str]:
        if depth >= self.deepest:
            way = min(ways, key=self.depth_of)
        else:
            way = self.random.choice(ways)
        for part in way:
            yield from self.draw(part, depth + 1)

    def depth_of(self, way: Sequence[str | Several | Choice]) -> int:
        return max(map(self._depth, way), default=0)

    def _depth(self, part: str | Several | Choice) -> int:
        match part:
            case Choice(ways):
                return min(map(self.depth_of, ways))
            case Several():
                return 0
        return self.depths.get(part, 0) if part in self.rules else 0

    def _depths(self) -> dict[str, int]:
        """How deep the least deep sentence of each rule is."""
        self.depths = dict.fromkeys(self.rules, 1 << 20)
        for _ in self.rules:
            for name, rule in self.rules.items():
                self.depths[name] = min(self.depths[name], 1 + self._depth(rule))
        return self.depths
