"""Chooses how ranges of folds are split, cut, merged and reversed; the kernel checks changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from structir.ir import dims
from structir.ir.dim_facts import Facts, opaque_atoms
from structir.ir.dims import Dim, Sym
from structir.proving.kernel import Change, Loops
from structir.proving.terms import (
    ElementTerm,
    Fold,
    NonNegative,
    NormalForm,
    SizeTerm,
    TableTerm,
    Unknown,
    free_dims,
    substituted,
    walk,
)


class Chooser:
    """Chooses changes, and records them: the certificate of a proof."""

    def __init__(self) -> None:
        self.certificate: list[Change | None] = []

    def __call__(self, stage: str, loops: Loops, value: NormalForm, facts: Facts) -> Change | None:
        """Returns the next change of the ranges of a fold, or None."""
        change = None
        if stage == "any":
            change = _split(loops, value) or _cut(loops, value, facts)
        elif stage == "set":
            change = _merge(loops, value) or _reverse(loops, value)
        self.certificate.append(change)
        return change


class Replay:
    """Returns the recorded changes of a proof in order."""

    def __init__(self, certificate: tuple[Change | None, ...]) -> None:
        self.changes = iter(certificate)

    def __call__(self, stage: str, loops: Loops, value: NormalForm, facts: Facts) -> Change | None:
        """Returns the next recorded change."""
        return next(self.changes, None)


def dims_in(value: Any) -> Iterator[Dim]:
    """Yields the dims in a term."""
    for t in walk(value):
        match t:
            case SizeTerm(dim) | NonNegative(dim):
                yield dim
            case ElementTerm(_, index) | Unknown(_, _, _, _, index):
                yield from index
            case Fold(_, variables) | TableTerm(variables):
                yield from [extent for _, extent in variables]


def _split(loops: Loops, value: NormalForm) -> Change | None:
    """Splits `k` where `k // m` or `k % m` occur."""
    extents = dict(loops)
    for dim in dims_in(value):
        for atom in opaque_atoms(dim):
            v = dims.as_sym(atom.args[0]) if atom.fn in ("floordiv", "floormod") else None
            if v in extents and v is not None:
                by = atom.args[1]
                if dims.exact_quotient(extents[v], by) is not None:
                    return "split range", v, by, Sym(v.name), Sym(v.name)
    return None


def _cut(loops: Loops, value: NormalForm, facts: Facts) -> Change | None:
    """Cuts a range where a condition changes."""
    variables = {v for v, _ in loops}
    for condition in [t for t in walk(value) if isinstance(t, NonNegative)]:
        for v, extent in loops:
            linear = dims.linear(condition.dim, v)
            if linear is None or linear[0] not in (1, -1) or free_dims(linear[1]) & variables:
                continue
            first = -linear[1] if linear[0] == 1 else linear[1] + 1
            if facts.entails(first) and facts.entails(extent - first):
                return "cut range", v, first
    return None


def _merge(loops: Loops, value: NormalForm) -> Change | None:
    """Merges `a` and `b` where both occur as `m * a + b` only."""
    for (a, _), (b, inner) in itertools.permutations(loops, 2):
        whole = Sym(a.name)
        at = dims.as_dim(whole) - inner * dims.as_dim(a)
        body = substituted(value, {b: at}) if b in value.free else value
        if b in value.free and a not in body.free and not _divides(body, whole):
            return "merged ranges", a, b, whole
    return None


def _divides(value: Any, variable: Sym) -> bool:
    """Whether a variable occurs in quotients or remainders, at which its range is split."""
    return any(
        [variable in dims.syms(a) for d in dims_in(value) for o in opaque_atoms(d) for a in o.args]
    )


def _reverse(loops: Loops, value: NormalForm) -> Change | None:
    """Reverses a range whose variable occurs in indices with the factor -1 only."""
    for v, _ in loops:
        linear = [dims.linear(dim, v) for dim in dims_in(value) if v in dims.syms(dim)]
        if linear and all([each is not None and each[0] == -1 for each in linear]):
            return "reversed range", v
    return None
