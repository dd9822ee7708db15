"""Random einsum calls with all notations of axes, and their result computed by loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

Array = Any
Point = dict[str, int]


@dataclass(frozen=True)
class Entry:
    """One axis: its text, its size, the names it uses, and its index at a point."""

    text: str
    size: int
    factors: tuple[tuple[int, str], ...] = ()
    offset: int = 0
    parts: tuple[str, ...] = ()  # of a concatenation

    @property
    def names(self) -> tuple[str, ...]:
        return self.parts or tuple(name for _, name in self.factors)


@dataclass
class EinsumCase:
    """An einsum call: its text, and the entries of operands and result."""

    text: str
    operands: list[list[Entry]]
    result: list[Entry]
    extents: dict[str, int] = field(default_factory=dict)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(entry.size for entry in term) for term in self.operands]

    def expected(self, arrays: Sequence[Array]) -> Array:
        """Returns the result: a sum over all points of all choices of concatenated parts."""
        out = np.zeros(tuple(entry.size for entry in self.result))
        joins = list(dict.fromkeys(e.parts for t in self.terms for e in t if e.parts))
        for chosen in itertools.product(*joins):
            self._add(out, arrays, dict(zip(joins, chosen, strict=True)))
        return out

    @property
    def terms(self) -> list[list[Entry]]:
        return [*self.operands, self.result]

    def _add(self, out: Array, arrays: Sequence[Array], choice: dict[tuple[str, ...], str]) -> None:
        excluded = {n for parts in choice for n in parts} - set(choice.values())

        def used(term: list[Entry]) -> set[str]:
            return {n for e in term for n in ([choice[e.parts]] if e.parts else e.names)}

        present = [k for k, term in enumerate(self.operands) if not used(term) & excluded]
        read = {n for k in present for n in used(self.operands[k])}
        if used(self.result) & excluded or not set(choice.values()) <= read:
            return
        names = sorted(read | used(self.result))
        for values in itertools.product(*[range(self.extents[n]) for n in names]):
            point = dict(zip(names, values, strict=True))
            target = self._index(self.result, point, choice)
            sources = [self._index(self.operands[k], point, choice) for k in present]
            if target is not None and None not in sources:
                factors = [arrays[k][s] for k, s in zip(present, sources, strict=True)]
                out[target] += np.prod(factors)

    def _index(
        self, term: list[Entry], point: Point, choice: dict[tuple[str, ...], str]
    ) -> tuple[int, ...] | None:
        indices = []
        for entry in term:
            if entry.parts:
                position = entry.parts.index(choice[entry.parts])
                start = sum(self.extents[n] for n in entry.parts[:position])
                index = start + point[entry.parts[position]]
            else:
                index = sum(f * point[n] for f, n in entry.factors) + entry.offset
            if not 0 <= index < entry.size:
                return None
            indices.append(index)
        return tuple(indices)


class CaseGenerator:
    """A generator of random einsum calls from a seed."""

    def __init__(self, seed: int, least: int = 1) -> None:
        self.random = Random(seed)
        self.extents = {n: self.random.randint(least, 3) for n in "abcdij"}
        self.ranks = {p: self.random.choice([0, 1, 1, 2]) for p in "stu"}
        for pack, rank in self.ranks.items():
            for k in range(rank):
                self.extents[f"{pack}{k}"] = self.random.randint(least, 2)
        self.fresh = itertools.count()

    def case(self) -> EinsumCase:
        terms = [self._term() for _ in range(self.random.randint(1, 3))]
        bound = {n for term in terms for _, entries in term for e in entries for n in e.names}
        result = self._result(bound, terms)
        texts = ["; ".join(" ".join(t for t, _ in term) for term in terms)]
        texts.append(" ".join(text for text, _ in result))
        text = " -> ".join(texts).rstrip()
        plain = {e.text for term in terms for _, entries in term for e in entries}
        unknown = sorted({*bound, *(n for _, es in result for e in es for n in e.names)} - plain)
        sizes = [f"{n} == {self.extents[n]}" for n in unknown if n[0] in "abcdij"]
        text += f" where {', '.join(sizes)}" if sizes else ""
        flat = [[e for _, entries in term for e in entries] for term in [*terms, result]]
        return EinsumCase(text, flat[:-1], flat[-1], self.extents)

    def _variable(self, name: str) -> Entry:
        return Entry(name, self.extents[name], ((1, name),))

    def _term(self) -> list[tuple[str, list[Entry]]]:
        term = [self._axis() for _ in range(self.random.randint(0, 3))]
        for pack in self.random.sample("stu", self.random.choice([0, 0, 1, 1, 2, 3])):
            axes = [self._variable(f"{pack}{k}") for k in range(self.ranks[pack])]
            term.insert(self.random.randint(0, len(term)), (f"*{pack}", axes))
        joined = {n for _, entries in term for e in entries for n in e.parts}
        names = [n for _, entries in term for e in entries for n in e.names]
        return term if all(names.count(n) == 1 for n in joined) else self._term()

    def _axis(self) -> tuple[str, list[Entry]]:
        kind = self.random.choice(["name"] * 5 + ["size", "fixed", "window", "window", "join"])
        entry: Entry = getattr(self, f"_{kind}")()
        return entry.text, [entry]

    def _name(self) -> Entry:
        return self._variable(self.random.choice("abcdij"))

    def _size(self) -> Entry:
        size, name = self.random.randint(1, 3), f"_{next(self.fresh)}"
        self.extents[name] = size
        return Entry(str(size), size, ((1, name),))

    def _fixed(self) -> Entry:
        size = self.random.randint(1, 3)
        index = self.random.randrange(size)
        return Entry(self.random.choice([f"{index}:{size}"]), size, (), index)

    def _join(self) -> Entry:
        first, second = self.random.choice(["ab", "cd", "ac"])
        size = self.extents[first] + self.extents[second]
        return Entry(f"{first}^{second}", size, parts=(first, second))

    def _window(self) -> Entry:
        over, kernel = self.random.sample("abcdij", 2)
        s, d = self.random.choice([1, 1, 2, 3]), self.random.choice([1, 1, 2])
        left, right = f"{s}*{over}" if s > 1 else over, f"{d}*{kernel}" if d > 1 else kernel
        extent, width = self.extents[over], self.extents[kernel]
        span = d * (width - 1) + 1
        kind = self.random.choice(["valid", "explicit", "padded", "size", "stride", "difference"])
        factors = ((s, over), (d, kernel))
        hull = s * (extent - 1) + span
        if kind == "valid":
            return Entry(f"{left}+{right}", hull, factors)
        if kind == "explicit":
            return Entry(f"{left}<+{right}", hull, factors)
        if kind == "padded":
            return Entry(f"{left}=+{right}", s * extent, factors, -(span // 2))
        if kind == "stride":
            return Entry(f"{s + 1}*{over}", (s + 1) * extent, ((s + 1, over),))
        if kind == "difference" and extent >= width:
            return Entry(f"{over}-{kernel}+1", extent - width + 1, ((1, over), (-1, kernel)))
        slack = self.random.randint(0, 2)
        constant = 1 - s - d + slack
        return Entry(f"{left}+{right}{constant:+}" if constant else f"{left}+{right}+1",
                     hull + (slack if constant else s + d), factors)  # fmt: skip

    def _result(
        self, bound: set[str], terms: list[list[tuple[str, list[Entry]]]]
    ) -> list[tuple[str, list[Entry]]]:
        packs = dict.fromkeys(text for term in terms for text, _ in term if text[0] == "*")
        while True:
            result: list[tuple[str, list[Entry]]] = []
            for _ in range(self.random.randint(0, 3)):
                text, entries = self._axis()
                if "<" in text or text.startswith("_"):
                    continue
                plus = text.replace("+", "") if "+" in text else ""
                if plus.isalpha() and entries[0].factors:  # `a+b` of a result is a concatenation
                    names = tuple(n for _, n in entries[0].factors)
                    size = sum(self.extents[n] for n in names)
                    entries = [Entry(text, size, parts=names)]
                result.append((text, entries))
            for pack in packs:
                if self.random.random() < 0.5:
                    axes = [self._variable(f"{pack[1]}{k}") for k in range(self.ranks[pack[1]])]
                    result.insert(self.random.randint(0, len(result)), (pack, axes))
            names = [n for _, entries in result for e in entries for n in e.names]
            joined = {n for _, entries in result for e in entries for n in e.parts}
            new = {n for n in names if n.startswith("_")}
            if set(names) - new <= bound and all(names.count(n) == 1 for n in joined):
                return result


def cases(seeds: Iterator[int] | range, least: int = 1) -> Iterator[EinsumCase]:
    """Yields random calls of at most 5,000 points, with subscripts that name axes by words."""
    for seed in seeds:
        case = CaseGenerator(seed, least).case()
        used = {n for term in case.terms for e in term for n in e.names}
        points = np.prod([case.extents[n] for n in used] or [1])
        marks = set(case.text.replace("->", "")) & set(";*~:+-=^0123456789")
        sizes = [e.size for term in case.terms for e in term]
        if points <= 5000 and marks and min(sizes, default=0) >= 0:
            yield case


def program(case: EinsumCase, operands: Sequence[str], result: str = "") -> str:
    """Returns a function that calls einsum, with these annotations."""
    params = ", ".join(f"x{k}: {info}" for k, info in enumerate(operands))
    names = "".join(f"x{k}, " for k in range(len(operands)))
    returned = f" -> {result}" if result else ""
    call = f'R.einsum(({names}), "{case.text}")'
    return f"@R.function\ndef main({params}){returned}:\n    return {call}\n"


def annotation(shape: Sequence[object]) -> str:
    """Returns an annotation with these sizes; strings are names."""
    sizes = ", ".join(f'"{size}"' if isinstance(size, str) else str(size) for size in shape)
    return f'R.Tensor(({sizes}{"," if len(shape) == 1 else ""}), "float64")'


def hidden(random: Random, shape: Sequence[int], names: dict[int, str], rate: float) -> str:
    """Returns an annotation of a shape with some sizes, or its rank, hidden or named."""
    if random.random() < rate * 0.5:
        return 'R.Tensor(dtype="float64")'
    sizes: list[object] = []
    for size in shape:
        draw = random.random()
        named = names.setdefault(size, f"n{len(names)}") if draw < rate * 0.4 else "_"
        sizes.append(named if draw < rate * 0.8 else size)
    if sizes and random.random() < rate * 0.3:  # a row variable for a part of the axes
        start = random.randrange(len(sizes))
        sizes[start : random.randint(start, len(sizes))] = [f"*r{random.randrange(10**6)}"]
    return annotation(sizes)
