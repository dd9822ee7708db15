"""How many axes each row of a line stands for, from the ranks of the operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structir.opdef.index_expr import IndexExtent, IndexVar
from structir.opdef.notation import AxisIndex, OperandAccess

Ranks = dict[str, int | None]


Fact = tuple[str, "int | None", "int | None"]  # a text, and the operand and axis that it rests on


class InvalidCall(Exception):
    """A call is provably wrong; the facts say why."""

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


def row_ranks(
    accesses: Sequence[OperandAccess],
    ranks: Sequence[int | None],
    axes: Mapping[str, int],
    stated: Mapping[str, int | None],
) -> Ranks:
    """The number of axes of every row, None where it is not known.

    `axes` places letters at axes; `stated` are the ranks of rows that attributes give.
    """
    found: Ranks = dict(stated)
    told_by: dict[str, int] = {}
    open_: list[tuple[int, OperandAccess, int]] = []
    for k, (access, rank) in enumerate(zip(accesses, ranks, strict=True)):
        if rank is None:
            for row in access.rows:
                found.setdefault(row, None)
            continue
        _check_rank(k, access, rank)
        if axes and access.rows:
            position = _placed_index(access, axes)
            if position is not None:
                _around(k, access, rank, position, axes, found, told_by)
                continue
        open_.append((k, access, rank))
    _fit_strict(open_, found, told_by, frozenset(stated))
    _fit_loose(accesses, ranks, open_, found, frozenset(stated))
    return found


def _check_rank(k: int, access: OperandAccess, rank: int) -> None:
    if rank < access.fixed or (rank > access.fixed and not access.rows):
        bound = "at least " if access.rows else ""
        raise InvalidCall(
            f"{access.shown} must have {bound}{axes_text(access.fixed)}, not {rank}",
            ((f"{access.shown} has {axes_text(rank)}", k, None),),
        )


def axes_text(count: int) -> str:
    """`1 axis`, `2 axes`."""
    return f"{count} axis" if count == 1 else f"{count} axes"


def _placed_index(access: OperandAccess, axes: Mapping[str, int]) -> int | None:
    """Where the entry stands whose letter is placed by an attribute."""
    for position, entry in enumerate(access.entries):
        if names_of(entry) & axes.keys():
            return position
    return None


def names_of(entry: AxisIndex) -> set[str]:
    """The letters that an entry is known by: its index if that is a letter, and its size."""
    names = {entry.index.name} if isinstance(entry.index, IndexVar) else set()
    return names | ({entry.size.name} if isinstance(entry.size, IndexExtent) else set())


def normal_axis(axis: int, rank: int, what: str = "the operand") -> int:
    """An axis counted from the front; out of range is an error."""
    if not -rank <= axis < rank:
        allowed = f"axes run from {-rank} to {rank - 1}" if rank else "a scalar has no axes"
        raise InvalidCall(
            f"axis {axis} is out of range for {what} of {axes_text(rank)}", (), allowed, "E0203"
        )
    return axis % rank


def _around(
    k: int,
    access: OperandAccess,
    rank: int,
    position: int,
    axes: Mapping[str, int],
    found: Ranks,
    told_by: dict[str, int],
) -> None:
    """The rows before and after an entry whose axis is given."""
    letter = next(iter(names_of(access.entries[position]) & axes.keys()))
    axis = normal_axis(axes[letter], rank, access.name)
    before, after = access.entries[:position], access.entries[position + 1 :]
    for part, count in ((before, axis), (after, rank - axis - 1)):
        rows = [e.row for e in part if e.row is not None]
        own = count - (len(part) - len(rows))
        if own < 0 or (own > 0 and not rows):
            raise InvalidCall(
                f"axis {axes[letter]} does not fit {access.text}",
                ((f"{access.name} has {axes_text(rank)}", k, None),),
            )
        if rows:
            _settle(k, access, rows[0], own, found, told_by)


def _settle(
    k: int, access: OperandAccess, row: str, count: int, found: Ranks, told_by: dict[str, int]
) -> None:
    known = found.get(row)
    if known is not None and known != count:
        facts = [(f"*{row} is {axes_text(known)}", told_by.get(row), None)]
        facts.append((f"*{row} is {axes_text(count)}", k, None))
        raise InvalidCall(f"the ranks do not agree on *{row} in {access.text}", tuple(facts))
    found[row] = count
    told_by.setdefault(row, k)


def _fit_strict(
    open_: list[tuple[int, OperandAccess, int]],
    found: Ranks,
    told_by: dict[str, int],
    stated: frozenset[str],
) -> None:
    """Rows without `~`: an operand of known rank whose other rows are known tells the last one."""
    waiting = [item for item in open_ if not _loose_rows(item[1])]
    while waiting:
        left = []
        for k, access, rank in waiting:
            unknown = [row for row in access.rows if found.get(row) is None]
            others = sum(found.get(row) or 0 for row in access.rows)
            if len(unknown) > 1:
                left.append((k, access, rank))
            elif unknown:
                if rank - access.fixed - others < 0:
                    raise InvalidCall(f"{access.name} has too few axes for {access.text}")
                _settle(k, access, unknown[0], rank - access.fixed - others, found, told_by)
            elif access.rows and access.fixed + others != rank:
                row = access.rows[-1]
                _settle(
                    k, access, row, rank - access.fixed - others + (found[row] or 0), found, told_by
                )
        if len(left) == len(waiting):
            return
        waiting = left


def _loose_rows(access: OperandAccess) -> list[str]:
    return [e.row for e in access.entries if e.row is not None and e.loose]


def _fit_loose(
    accesses: Sequence[OperandAccess],
    ranks: Sequence[int | None],
    open_: list[tuple[int, OperandAccess, int]],
    found: Ranks,
    stated: frozenset[str],
) -> None:
    """Rows with `~` are as long as the longest; unknown if one operand's rank is."""
    for k, access, rank in open_:
        for row in _loose_rows(access):
            others = sum(found.get(r) or 0 for r in access.rows if r != row)
            own = rank - access.fixed - others
            if row in stated:
                _check_target(k, access, rank, own, found[row])
            else:
                found[row] = max(found.get(row) or 0, own)
    for access, known in zip(accesses, ranks, strict=True):
        if known is None:
            for row in _loose_rows(access):
                found[row] = found[row] if row in stated else None


def _check_target(k: int, access: OperandAccess, rank: int, own: int, limit: int | None) -> None:
    if limit is not None and own > limit:
        facts = (
            (f"{access.name} has {axes_text(rank)}", k, None),
            (f"the target has {axes_text(limit)}", None, None),
        )
        raise InvalidCall(f"{access.name} has more axes than the target shape", facts)
