"""Infers the rank of each axis pack (`*s`) from the ranks of the operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structir.opdef.index_expr import IndexExtent, IndexVar
from structir.opdef.notation import AxisIndex, OperandAccess

Ranks = dict[str, int | None]


Fact = tuple[str, "int | None", "int | None"]  # a text, and the operand and axis it refers to


class InvalidCall(Exception):
    """A provably invalid call; each fact refers to an operand and axis."""

    def __init__(
        self,
        message: str,
        facts: tuple[Fact, ...] = (),
        hint: str | None = None,
        code: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts
        self.hint = hint
        self.code = code


def infer_pack_ranks(
    accesses: Sequence[OperandAccess],
    ranks: Sequence[int | None],
    axes: Mapping[str, int],
    stated: Mapping[str, int | None],
) -> Ranks:
    """Returns the rank of every axis pack, None where unknown.

    `axes` maps index variables to axis numbers; `stated` has the ranks of attribute packs.
    """
    packs: Ranks = dict(stated)
    sources: dict[str, int] = {}
    unplaced: list[tuple[int, OperandAccess, int]] = []
    for k, (access, rank) in enumerate(zip(accesses, ranks, strict=True)):
        if rank is None:
            for row in access.packs:
                packs.setdefault(row, None)
            continue
        _check_rank(k, access, rank)
        if axes and access.packs:
            position = _placed_index(access, axes)
            if position is not None:
                _around(k, access, rank, position, axes, packs, sources)
                continue
        unplaced.append((k, access, rank))
    _fit_strict(unplaced, packs, sources, frozenset(stated))
    _fit_loose(accesses, ranks, unplaced, packs, frozenset(stated))
    return packs


def _check_rank(k: int, access: OperandAccess, rank: int) -> None:
    if rank < access.fixed or (rank > access.fixed and not access.packs):
        bound = "at least " if access.packs else ""
        raise InvalidCall(
            f"{access.shown}: expected {bound}{axes_text(access.fixed)}, found {rank}",
            ((axes_text(rank), k, None),),
            code="E0304",
        )


def axes_text(count: int) -> str:
    """Returns `1 axis`, `2 axes`."""
    return f"{count} axis" if count == 1 else f"{count} axes"


def _placed_index(access: OperandAccess, axes: Mapping[str, int]) -> int | None:
    """Returns the position of the index variable whose axis an attribute determines."""
    for position, entry in enumerate(access.entries):
        if names_of(entry) & axes.keys():
            return position
    return None


def names_of(entry: AxisIndex) -> set[str]:
    """Returns the index variables that are the whole index or size of an axis."""
    names = {entry.index.name} if isinstance(entry.index, IndexVar) else set()
    return names | ({entry.size.name} if isinstance(entry.size, IndexExtent) else set())


def normal_axis(axis: int, rank: int, what: str = "the operand") -> int:
    """Normalizes a possibly negative axis; raises InvalidCall where it is out of range."""
    if not -rank <= axis < rank:
        allowed = f"{-rank} to {rank - 1}" if rank else "no axis, as it is a scalar"
        raise InvalidCall(
            f"axis out of range for {what}: expected {allowed}, found {axis}",
            (),
            f"write an axis from {-rank} to {rank - 1}" if rank else None,
            "E0203",
        )
    return axis % rank


def _around(
    k: int,
    access: OperandAccess,
    rank: int,
    position: int,
    axes: Mapping[str, int],
    packs: Ranks,
    sources: dict[str, int],
) -> None:
    """Binds the axis packs before and after an axis whose number is known."""
    letter = next(iter(names_of(access.entries[position]) & axes.keys()))
    axis = normal_axis(axes[letter], rank, access.name)
    before, after = access.entries[:position], access.entries[position + 1 :]
    for part, count in ((before, axis), (after, rank - axis - 1)):
        rows = [e.pack for e in part if e.pack is not None]
        pack_rank = count - (len(part) - len(rows))
        if pack_rank < 0 or (pack_rank > 0 and not rows):
            raise InvalidCall(
                f"rank mismatch: expected axis {axes[letter]} at {letter} of {access.text}, "
                f"found {axes_text(rank)}",
                ((axes_text(rank), k, None),),
                code="E0304",
            )
        if rows:
            _bind_rank(k, access, rows[0], pack_rank, packs, sources)


def _bind_rank(
    k: int, access: OperandAccess, row: str, count: int, packs: Ranks, sources: dict[str, int]
) -> None:
    known = packs.get(row)
    if known is not None and known != count:
        facts = [(f"*{row} has {axes_text(known)}", sources.get(row), None)]
        facts.append((f"*{row} has {axes_text(count)}", k, None))
        message = f"rank mismatch: expected {axes_text(known)} for *{row} of {access.text}"
        raise InvalidCall(f"{message}, found {count}", tuple(facts), code="E0304")
    packs[row] = count
    sources.setdefault(row, k)


def _fit_strict(
    unplaced: list[tuple[int, OperandAccess, int]],
    packs: Ranks,
    sources: dict[str, int],
    stated: frozenset[str],
) -> None:
    """Binds packs without `~`: an operand of known rank determines its only unknown pack."""
    pending = [item for item in unplaced if not _loose_rows(item[1])]
    while pending:
        remaining = []
        for k, access, rank in pending:
            unknown = [row for row in access.packs if packs.get(row) is None]
            others = sum(packs.get(row) or 0 for row in access.packs)
            if len(unknown) > 1:
                remaining.append((k, access, rank))
            elif unknown:
                if rank - access.fixed - others < 0:
                    least = axes_text(access.fixed + others)
                    message = f"{access.shown}: expected at least {least}, found {rank}"
                    raise InvalidCall(message, ((axes_text(rank), k, None),), code="E0304")
                _bind_rank(k, access, unknown[0], rank - access.fixed - others, packs, sources)
            elif access.packs and access.fixed + others != rank:
                row = access.packs[-1]
                count = rank - access.fixed - others + (packs[row] or 0)
                _bind_rank(k, access, row, count, packs, sources)
        if len(remaining) == len(pending):
            return
        pending = remaining


def _loose_rows(access: OperandAccess) -> list[str]:
    return [e.pack for e in access.entries if e.pack is not None and e.loose]


def _fit_loose(
    accesses: Sequence[OperandAccess],
    ranks: Sequence[int | None],
    unplaced: list[tuple[int, OperandAccess, int]],
    packs: Ranks,
    stated: frozenset[str],
) -> None:
    """Binds packs with `~` to the largest rank, or None where an operand's rank is unknown."""
    for k, access, rank in unplaced:
        for row in _loose_rows(access):
            others = sum(packs.get(r) or 0 for r in access.packs if r != row)
            pack_rank = rank - access.fixed - others
            if row in stated:
                _check_target(k, access, rank, pack_rank, packs[row])
            else:
                packs[row] = max(packs.get(row) or 0, pack_rank)
    for access, known in zip(accesses, ranks, strict=True):
        if known is None:
            for row in _loose_rows(access):
                packs[row] = packs[row] if row in stated else None


def _check_target(
    k: int, access: OperandAccess, rank: int, pack_rank: int, limit: int | None
) -> None:
    if limit is not None and pack_rank > limit:
        message = f"{access.shown}: expected at most {axes_text(limit)}, as in the target shape"
        raise InvalidCall(f"{message}, found {rank}", ((axes_text(rank), k, None),), code="E0304")
