"""Translates parsed subscripts to an index signature."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, count, zip_longest

import attrs

from structir.ir.dims import Dim
from structir.opdef.call_view import ResolvedSignature
from structir.opdef.index_vars import access_text, where_text
from structir.opdef.subscripts import (
    AffineAxis,
    Axis,
    FixedIndex,
    JoinedAxes,
    NamedAxis,
    RowAxes,
    SizedAxis,
    SubscriptError,
    Subscripts,
    Term,
    names_of,
)

_RANK = re.compile(r"rank\(\*(\w+)\)\s*==\s*(\d+)")
_ELEMENTS = re.compile(r"\belements\(")


def signature_of_subscripts(subscripts: Subscripts, operand: str) -> ResolvedSignature:
    """Returns the index signature of subscripts over the members of a list operand."""
    subscripts = with_ranks(subscripts)
    _check_names(subscripts)
    subscripts = with_merged_packs(subscripts)
    names = {name for term in subscripts.terms for axis in term for name in names_of(axis)}
    translator = _Translator(_unused_names(names))
    reads = [
        access_text(f"{operand}_{k}", translator.term(term, result=False))
        for k, term in enumerate(subscripts.operands)
    ]
    out = access_text("out", translator.term(subscripts.result, result=True))
    conditions = [_ELEMENTS.sub("flat(", condition) for condition in subscripts.where]
    return ResolvedSignature(
        f"{', '.join(reads)} -> {out}", where_text(translator.conditions, conditions)
    )


def with_ranks(subscripts: Subscripts) -> Subscripts:
    """Returns subscripts with axes for the packs of `where rank(*s) == 2`."""
    ranks = {m[1]: int(m[2]) for c in subscripts.where if (m := _RANK.fullmatch(c))}
    if not ranks:
        return subscripts
    where = tuple([c for c in subscripts.where if not _RANK.fullmatch(c)])
    return with_pack_axes(attrs.evolve(subscripts, where=where), ranks)


def with_pack_axes(subscripts: Subscripts, ranks: Mapping[str, int]) -> Subscripts:
    """Returns subscripts with index variables for packs of known rank: `*o` is `o1 o2`."""
    taken = {name for term in subscripts.terms for axis in term for name in names_of(axis)}
    taken |= {axis.name for term in subscripts.terms for axis in term if isinstance(axis, RowAxes)}
    axes = {pack: _axes_of_pack(pack, rank, taken - {pack}) for pack, rank in ranks.items()}

    def expand(term: Term) -> Term:
        parts: list[Axis] = []
        for axis in term:
            if isinstance(axis, RowAxes) and axis.name in axes and not axis.loose:
                parts += [NamedAxis(name, axis.columns) for name in axes[axis.name]]
            else:
                parts.append(axis)
        return tuple(parts)

    operands = tuple(map(expand, subscripts.operands))
    return attrs.evolve(subscripts, operands=operands, result=expand(subscripts.result))


def _axes_of_pack(pack: str, rank: int, taken: Collection[str]) -> list[str]:
    stem = pack
    while any(f"{stem}{k + 1}" in taken for k in range(rank)):
        stem += "_"
    return [f"{stem}{k + 1}" for k in range(rank)]


def with_merged_packs(subscripts: Subscripts) -> Subscripts:
    """Returns subscripts in which packs that always follow each other are one pack.

    The ranks of the parts do not matter: `*b *o *i -> *b` is `*b *o -> *b`.
    """
    followers = _followers(subscripts.terms)
    predecessors = _followers([term[::-1] for term in subscripts.terms])
    merged = {b for a, b in followers.items() if b is not None and predecessors.get(b) == a}
    if not merged:
        return subscripts

    def rest(term: Term) -> Term:
        return tuple([a for a in term if not isinstance(a, RowAxes) or a.name not in merged])

    operands = tuple(map(rest, subscripts.operands))
    return attrs.evolve(subscripts, operands=operands, result=rest(subscripts.result))


def _followers(terms: Collection[Term]) -> dict[str, str | None]:
    """Returns the strict pack that follows each strict pack at every occurrence, or None."""
    followers: dict[str, str | None] = {}
    for term in terms:
        for axis, following in zip_longest(term, term[1:]):
            if not isinstance(axis, RowAxes):
                continue
            strict = isinstance(following, RowAxes) and not following.loose and not axis.loose
            name = following.name if strict and isinstance(following, RowAxes) else None
            name = None if name == axis.name else name
            same = followers.get(axis.name, name) == name
            followers[axis.name] = name if same else None
    return followers


def _unused_names(names: Collection[str]) -> Iterator[str]:
    """Yields `i`, `j`, ..., `z`, `i1`, `j1`, ... without the names of axes in the subscripts."""
    suffixes = chain([""], map(str, count(1)))
    candidates = (letter + suffix for suffix in suffixes for letter in "ijklmnopqrstuvwxyz")
    return (name for name in candidates if name not in names)


def _check_names(subscripts: Subscripts) -> None:
    """Checks that the names of result axes and conditions are axes of operands."""
    axes = [axis for term in subscripts.operands for axis in term]
    names = {name for axis in axes for name in names_of(axis)}
    packs = {axis.name for axis in axes if isinstance(axis, RowAxes)}
    mentioned = {word for c in subscripts.where for word in re.findall(r"[A-Za-z_]\w*", c)}
    for term in subscripts.terms:
        _check_joins(term)
    for axis in () if subscripts.open_names else subscripts.result:
        hint = "write a number for a new axis, or `_` for a size that inference determines"
        known = {*packs, *names} if isinstance(axis, RowAxes) else {*names, *mentioned}
        wanted = [axis.name] if isinstance(axis, RowAxes) else _required_names(axis)
        if not known >= set(wanted):
            message = f"expected result axes of the operands, found `{axis}`"
            raise SubscriptError(message, axis.columns.start, axis.columns.end, hint)


def _required_names(axis: Axis) -> tuple[str, ...]:
    """Returns the names of a result axis that operands must have: all but parts of a join."""
    return () if isinstance(axis, JoinedAxes | FixedIndex) else names_of(axis)


def _check_joins(term: Term) -> None:
    """Checks that a concatenated index variable is no other axis of the same term."""
    for position, axis in enumerate(term):
        others = [name for k, other in enumerate(term) if k != position for name in names_of(other)]
        if isinstance(axis, JoinedAxes) and not set(names_of(axis)).isdisjoint(others):
            shared = next(name for name in names_of(axis) if name in others)
            message = f"expected `{shared}` once in a term with `{axis}`, found another axis"
            hint = f"rename one `{shared}`"
            raise SubscriptError(message, axis.columns.start, axis.columns.end, hint)


@attrs.define
class _Translator:
    """The translator of axes to index expressions; it collects conditions on sizes."""

    unused: Iterator[str]
    conditions: list[str] = attrs.field(factory=list)

    def term(self, term: Term, *, result: bool) -> list[str]:
        """Returns the index expressions of the axes of an access."""
        return [self._axis(axis, result) for axis in term]

    def _axis(self, axis: Axis, result: bool) -> str:
        match axis:
            case RowAxes(name, loose=loose):
                return f"{'~' if loose else '*'}{name}"
            case NamedAxis(name):
                return next(self.unused) if name == "_" else name
            case SizedAxis(size):
                name = self._sized(size)
                return name if result else f"{name} : {size}"
            case FixedIndex(index, size):
                return f"{index} : {self._fixed_size(index, size)}"
            case JoinedAxes(parts):
                names = [p if isinstance(p, str) else self._sized(p) for p in parts]
                return f"join({', '.join(names)})"
            case AffineAxis():
                return _window_text(axis)

    def _sized(self, size: int) -> str:
        """Returns a new index variable with this extent."""
        name = next(self.unused)
        self.conditions.append(f"{name} == {size}")
        return name

    def _fixed_size(self, index: int, size: str | int | None) -> str:
        if isinstance(size, int):
            return self._sized(size)
        name = next(self.unused) if size is None else size
        self.conditions.append(f"{name} >= {index + 1}")
        return name


def _window_text(window: AffineAxis) -> str:
    """Returns `index : size` of an affine index."""
    index = _sum_text(window)
    if window.padded:
        _, (dilation, kernel) = window.factors
        index += f" - ({dilation}*(size({kernel}) - 1) + 1)//2"
    return f"{index} : {size_text(window)}"


def _sum_text(window: AffineAxis) -> str:
    return _signed([(factor, name) for factor, name in window.factors])


def _signed(terms: Sequence[tuple[int, str]]) -> str:
    """Returns a sum as text: `2*i - k`."""
    texts = [f"{abs(factor)}*{name}" if abs(factor) > 1 else name for factor, name in terms]
    signs = [" - " if factor < 0 else " + " for factor, _ in terms]
    return "".join([s + t for s, t in zip(signs, texts, strict=True)]).strip().removeprefix("+ ")


def axis_size(axis: Axis, sizes: Mapping[str, Dim]) -> Dim | None:
    """Returns the size of an axis from those of its index variables; None without one of them."""
    if not names_of(axis) or not all(name in sizes for name in names_of(axis)):
        return axis.size if isinstance(axis, SizedAxis) else None
    match axis:
        case NamedAxis(name):
            return sizes[name]
        case JoinedAxes(parts):
            return sum([part if isinstance(part, int) else sizes[part] for part in parts])
        case AffineAxis(factors):
            terms = factors[:1] if axis.padded else factors
            return sum([factor * sizes[name] for factor, name in terms], _constant(axis))
    return None


def _constant(axis: AffineAxis) -> int:
    """Returns the constant of the size of an affine axis."""
    if axis.constant is not None or axis.padded or len(axis.factors) == 1:
        return axis.constant or 0
    return 1 - sum([factor for factor, _ in axis.factors])


def size_text(axis: Axis) -> str:
    """Returns the size of an axis as an expression over the sizes of index variables."""
    match axis:
        case JoinedAxes(parts):
            return " + ".join(map(str, parts))
        case AffineAxis(((stride, over), _), padded=True):
            return _signed([(stride, over)])
        case AffineAxis():
            constant = _constant(axis)
            sign = "-" if constant < 0 else "+"
            text = _sum_text(axis)
            return f"{text} {sign} {abs(constant)}" if constant else text
        case FixedIndex(_, size):
            return str(size)
    return str(axis)
