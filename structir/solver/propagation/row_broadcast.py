"""Solves broadcasting of rows, aligned at the right: `RowLe` (broadcasts to) and `RowJoin`."""

from __future__ import annotations

from collections.abc import Sequence

from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import RankLe, RowJoin, RowLe
from structir.solver.domains.intervals import proves_not_one
from structir.solver.domains.ranks import (
    bind_row,
    equate_ranks,
    max_rank,
    min_rank,
    require_max_rank,
    require_min_rank,
)
from structir.solver.domains.terms import Element, Row, RowVar, known_ends, row_vars
from structir.solver.propagation.arithmetic import fresh
from structir.solver.propagation.dim_broadcast import join_sizes, require_broadcast
from structir.solver.propagation.row_unification import equate_rows, unify_axes
from structir.solver.propagation.store import ConstraintStore, rule

MAX_JOIN_DEPTH = 4  # of the search for an operand in nested joins


@rule(RowLe)
def _(store: ConstraintStore, constraint: RowLe) -> bool:
    rest = _reduce_broadcast(store, constraint.inner, constraint.outer)
    if rest is None:
        return True
    if store.is_first_run():
        store.post(RankLe(*rest))
    if len(rest[0]) < len(store.row(constraint.inner)):
        store.repost(RowLe(*rest))
        return True
    return False


def _reduce_broadcast(store: ConstraintStore, inner: Row, outer: Row) -> tuple[Row, Row] | None:
    """Propagates a broadcast of rows; returns the remaining broadcast, or None if it is settled."""
    while True:
        inner, outer = _align(store, store.row(inner), store.row(outer))
        if not inner or inner == outer:
            return None
        if not outer:
            equate_rows(store, inner, ())
            return None
        if type(inner[-1]) is RowVar:
            if not _extend_end(store, inner, outer):
                break
        elif not _can_extend(store, inner, outer):
            break
        else:
            inner, outer = _match_last_axis(store, inner, outer)
    if _same_variables(inner, outer) and len(inner) == len(outer):
        head = min(known_ends(inner)[0], known_ends(outer)[0])
        for small, large in zip(inner[:head], outer[:head], strict=True):
            require_broadcast(store, small, large)  # type: ignore[arg-type]
        return inner[head:], outer[head:]
    return inner, outer


def _align(store: ConstraintStore, inner: Row, outer: Row) -> tuple[Row, Row]:
    end = 0
    while end < min(len(inner), len(outer)):
        small, large = inner[-1 - end], outer[-1 - end]
        if small is large:  # the same row variable at both ends
            end += 1
            continue
        if type(small) is RowVar or type(large) is RowVar:
            break
        require_broadcast(store, small, large)  # type: ignore[arg-type]
        end += 1
    return inner[: len(inner) - end], outer[: len(outer) - end]


def _extend_end(store: ConstraintStore, inner: Row, outer: Row) -> bool:
    """Binds the inner row's last variable to known axes, if they align with axes of the outer."""
    mark = len(store.used)
    variable: RowVar = inner[-1]  # type: ignore[assignment]
    width = min(min_rank(store, (variable,)), known_ends(outer)[1])
    if not width:
        del store.used[mark:]
        return False
    bind_row(store, variable, (RowVar(), *[fresh() for _ in range(width)]))
    return True


def _can_extend(store: ConstraintStore, inner: Row, outer: Row) -> bool:
    """Returns whether the outer row's last variable may gain an axis."""
    return type(outer[-1]) is RowVar and not (set(row_vars(inner)) & set(row_vars(outer)))


def _match_last_axis(store: ConstraintStore, inner: Row, outer: Row) -> tuple[Row, Row]:
    split = last_axis(store, outer)
    require_broadcast(store, inner[-1], split[1])  # type: ignore[arg-type]
    return inner[:-1], split[0]


def last_axis(store: ConstraintStore, row: Row) -> tuple[Row, Dim]:
    """Splits off the last axis of a row that has one."""
    row = store.row(row)
    if not row:
        raise store.conflict("expected one more axis, found none", "E0402")
    last = row[-1]
    if type(last) is not RowVar:
        return row[:-1], last  # type: ignore[return-value]
    rest, axis = RowVar(), fresh()
    if len(row) == 1:
        bind_row(store, last, (rest, axis))
    else:  # the variable may be empty, so it cannot be bound directly
        equate_rows(store, row, (rest, axis))
    return (rest,), axis


def _first_axis(store: ConstraintStore, row: Row) -> tuple[Dim, Row]:
    row = store.row(row)
    if not row:
        raise store.conflict("expected one more axis, found none", "E0402")
    first = row[0]
    if type(first) is not RowVar:
        return first, row[1:]  # type: ignore[return-value]
    axis, rest = fresh(), RowVar()
    if len(row) == 1:
        bind_row(store, first, (axis, rest))
    else:
        equate_rows(store, row, (axis, rest))
    return axis, (rest,)


def _same_variables(first: Row, second: Row) -> bool:
    lhs, rhs = row_vars(first), row_vars(second)
    return lhs == rhs or (len(lhs) == len(rhs) and set(lhs) == set(rhs))


def join_rows(store: ConstraintStore, rows: Sequence[Row]) -> Row:
    """Returns the broadcast of rows: computed if the ranks are known, else a fresh row variable."""
    if store.row_join_operands and len(rows) > 1:
        rows = _drop_covered(store, rows)
    operands, rows = rows, [store.row(row) for row in rows]
    first = rows[0]
    if all(row == first for row in rows):
        return operands[0]
    if not any(type(e) is RowVar for row in rows for e in row):
        return _join_known_ranks(store, rows)
    end = _common_end(rows)
    if end:
        head = join_rows(store, [row[: len(row) - end] for row in rows])
        return (*head, *first[len(first) - end :])
    key = frozenset(operands)
    existing_join = store.row_joins.get(key)
    if existing_join is not None:
        store.used.append(existing_join[1])
        return existing_join[0]
    joined, reason = RowVar(), store.reason()
    store.set(store.row_joins, key, ((joined,), reason))
    store.set(store.row_join_operands, joined, (tuple(operands), reason))
    store.post(RowJoin((joined,), tuple(rows)))
    return (joined,)


def _common_end(rows: Sequence[Row]) -> int:
    """Returns the length of the common suffix of all rows, if it contains a row variable."""
    end = 0
    while all(len(row) > end and row[-1 - end] is rows[0][-1 - end] for row in rows):
        end += 1
    return end if row_vars(rows[0][len(rows[0]) - end :]) else 0


def _drop_covered(store: ConstraintStore, rows: Sequence[Row]) -> Sequence[Row]:
    """Drops the rows of which another row is already a join."""
    for row in rows:
        if len(row) == 1 and type(row[0]) is RowVar and row[0] in store.row_join_operands:
            redundant = _covered_rows(store, row[0], [other for other in rows if other is not row])
            if redundant:
                return [other for other in rows if other is row or other not in redundant]
    return rows


def _covered_rows(store: ConstraintStore, joined: RowVar, rows: list[Row]) -> list[Row]:
    """Returns the rows that are operands of a join or of joins nested in it."""
    level, matches = [joined], list[Row]()
    for _ in range(MAX_JOIN_DEPTH):
        next_level: list[RowVar] = []
        for variable in level:
            parts, reason = store.row_join_operands[variable]
            matching = [row for row in rows if row in parts]
            if matching or len(parts) == 2:
                store.used.append(reason)
            matches += matching
            next_level += [
                part[0]
                for part in parts
                if len(part) == 1 and type(part[0]) is RowVar and part[0] in store.row_join_operands
            ]
        if matches or not next_level:
            break
        level = next_level[:MAX_JOIN_DEPTH]
    return matches


def _join_known_ranks(store: ConstraintStore, rows: Sequence[Row]) -> Row:
    rank = max(map(len, rows))
    elements: list[Element] = []
    for index in range(-rank, 0):
        column: list[Dim] = [row[index] for row in rows if len(row) >= -index]  # type: ignore[misc]
        first = column[0]
        if all(size is first for size in column):
            elements.append(first)
        else:
            elements.append(join_sizes(store, column))
    return tuple(elements)


@rule(RowJoin)
def _(store: ConstraintStore, constraint: RowJoin) -> bool:
    outer, rows = store.row(constraint.outer), list[Row]()
    for row in constraint.inners:
        row = store.row(row)
        if row and row not in rows:
            rows.append(row)
    if len(rows) < 2:
        equate_rows(store, outer, rows[0] if rows else ())
        return True
    if not any(type(e) is RowVar for row in rows for e in row):
        equate_rows(store, outer, _join_known_ranks(store, rows))
        return True
    if all(type(row[-1]) is not RowVar for row in rows):
        _peel_right(store, outer, rows)
        return True
    end = _common_end(rows)
    if end:
        rest = RowVar()
        equate_rows(store, outer, (rest, *rows[0][len(rows[0]) - end :]))
        heads = tuple([row[: len(row) - end] for row in rows])
        store.repost(RowJoin((rest,), heads))
        return True
    if all(type(row[0]) is not RowVar and _equal_rank(row, rows[0]) for row in rows):
        _peel_left(store, outer, rows)
        return True
    if store.is_first_run():
        for row in rows:
            store.post(RowLe(row, outer))
    _rank_of_join(store, outer, rows)
    _require_axis_source(store, outer, rows)
    return False


def _equal_rank(first: Row, second: Row) -> bool:
    return len(first) == len(second) and _same_variables(first, second)


def _peel_right(store: ConstraintStore, outer: Row, rows: list[Row]) -> None:
    rest, axis = last_axis(store, outer)
    _equate_join(store, axis, [row[-1] for row in rows])  # type: ignore[misc]
    store.repost(RowJoin(rest, tuple([row[:-1] for row in rows])))


def _peel_left(store: ConstraintStore, outer: Row, rows: list[Row]) -> None:
    axis, rest = _first_axis(store, outer)
    _equate_join(store, axis, [row[0] for row in rows])  # type: ignore[misc]
    store.repost(RowJoin(rest, tuple([row[1:] for row in rows])))


def _equate_join(store: ConstraintStore, outer: Dim, inners: list[Dim]) -> None:
    unify_axes(store, outer, join_sizes(store, inners))


def _rank_of_join(store: ConstraintStore, outer: Row, rows: list[Row]) -> None:
    """Concludes the rank of a join: the greatest rank of its operands."""
    mark = len(store.used)
    lows = [min_rank(store, row) for row in rows]
    highs = [max_rank(store, row) for row in rows]
    if all(high is not None for high in highs):
        require_max_rank(store, outer, max(high for high in highs if high is not None))
    require_min_rank(store, outer, max(lows))
    for index, row in enumerate(rows):
        others = [high for k, high in enumerate(highs) if k != index]
        if all(high is not None and high <= lows[index] for high in others):
            key = ("rank of join", outer, row)
            if key not in store.derived_once:
                store.set(store.derived_once, key, None)
                equate_ranks(store, outer, row)
    del store.used[mark:]


def _require_axis_source(store: ConstraintStore, outer: Row, rows: list[Row]) -> None:
    """Requires the only open operand to have the axes that no other operand can provide."""
    open_rows = [row for row in rows if row_vars(row)]
    if len(open_rows) != 1 or row_vars(outer):
        return
    closed_rows = [row for row in rows if not row_vars(row)]
    mark, needed = len(store.used), 0
    if all(len(row) < len(outer) for row in closed_rows):
        needed = len(outer)
    for position in range(len(outer), needed, -1):
        axis = store.dim(outer[-position])  # type: ignore[arg-type]
        if proves_not_one(store, axis) and all(
            len(row) < position or store.dim(row[-position]) == 1  # type: ignore[arg-type]
            for row in closed_rows
        ):
            needed = position
            break
    if needed:
        require_min_rank(store, open_rows[0], needed)
    del store.used[mark:]
