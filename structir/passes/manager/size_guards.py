"""Evaluates what programs decide by sizes alone, at many sizes at once.

A rewrite may be wrong only where several conditions on sizes hold. Few sizes meet all of them, but
a condition depends on no data, so that thousands of sizes are evaluated without a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import walk_values
from structir.errors import StructIRError
from structir.ir.dim_proofs import FUNCTIONS
from structir.ir.dims import Dim, Opaque, Poly, Sym, syms
from structir.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Var,
)
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import ShapeStructInfo, TensorStructInfo
from structir.passes.manager.input_sizes import Sizes, SizeSpace
from structir.passes.manager.margins import elementwise_value, evaluated_margins, margins_of

Array = Any  # a NumPy array: a value for each candidate
Columns = Mapping[str, Array]  # the sizes of a dim by its name

CANDIDATES = 4000
MOST_GROUPS = 20
EACH = 3  # sizes for one combination of outcomes
HEAD = 4  # of the shortest runs of a combination
MOST_WORK = 1 << 24
MOST_CHECKED = 40  # candidates of a combination
MOST_NUMBER = 1 << 10
SMALL = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 17, 20, 24, 33)
VECTORIZED = {"min": np.minimum, "max": np.maximum}


@attrs.frozen
class GuardedSizes:
    """The sizes that lead to each combination of outcomes of the decisions by sizes alone."""

    space: SizeSpace
    candidates: list[Sizes]
    groups: tuple[Sequence[int], ...]  # the candidates with equal outcomes, the rarest first

    def __iter__(self) -> Iterator[Sizes]:
        """Yields sizes for each combination of outcomes: of the shortest run, and longer ones."""
        for group in self.groups[:MOST_GROUPS]:
            step = max(1, len(group) // MOST_CHECKED)
            among = [self.candidates[k] for k in (*group[:HEAD], *group[HEAD::step])]
            possible = [sizes for sizes in among if self._is_possible(sizes)]
            yield from possible[:1]
            yield from (possible[len(possible) * k // EACH] for k in range(1, EACH) if possible[k:])

    def _is_possible(self, sizes: Sizes) -> bool:
        space = self.space
        allowed = space.allows(sizes) and not space.is_costly(sizes)
        return allowed and space.operations(sizes) <= MOST_WORK


def branches_by_size(module: IRModule) -> bool:
    """Whether a module has a conditional on sizes."""
    return any(type(node) is If and type(node.cond) is PrimValue for node in walk_values(module))


def guarded_sizes(
    space: SizeSpace,
    modules: Sequence[IRModule],
    name: str,
    changed: Collection[int],
    numbers: Sequence[int],
    start: Sizes,
) -> GuardedSizes:
    """Returns sizes for the outcomes of the calls whose ids are `changed`, where these depend on
    sizes alone."""
    candidates = list(_candidates(space, numbers, start)) if len(space.names) else []
    columns = {each: np.array([sizes[each] for sizes in candidates]) for each in space.names}
    outcomes: list[Array] = []
    for module in modules if candidates else ():
        function = module.functions.get(name)
        if isinstance(function, Function):
            evaluation = _Evaluation(columns, changed, len(candidates))
            evaluation.sequence(function.body)
            outcomes += evaluation.outcomes
    if not outcomes:
        return GuardedSizes(space, candidates, ())
    _, inverse, counts = np.unique(
        np.stack(outcomes, 1), axis=0, return_inverse=True, return_counts=True
    )
    inverse = np.ravel(inverse)
    total = sum(columns.values())
    order = np.argsort(total + 100 * sum(column == 1 for column in columns.values()))
    members: list[list[int]] = [[] for _ in counts]
    for index in order.tolist():
        members[inverse[index]].append(index)
    return GuardedSizes(space, candidates, tuple(members[k] for k in np.argsort(counts)))


def _candidates(space: SizeSpace, numbers: Sequence[int], start: Sizes) -> Iterator[Sizes]:
    """Yields random sizes: small ones, near numbers of the program, and with a relation."""
    firsts = {sym.name: first.name for sym, first in space.classes.items()}
    names = list(dict.fromkeys(firsts.values()))
    mentioned = [number for number in dict.fromkeys(numbers) if 1 < number <= MOST_NUMBER]
    near = [number + step for number in mentioned for step in (0, 1, -1)] or [4]
    rng = Random(len(start))
    for _ in range(CANDIDATES):
        sizes = {name: rng.choice(SMALL) for name in names}
        for name in names:
            kind = rng.random()
            if kind < 0.15:
                sizes[name] = rng.choice(near)
            elif kind < 0.35:
                other = sizes[rng.choice(names)]
                sizes[name] = rng.choice((other, other, other + 1, other * rng.choice(near)))
        full = {**start, **{name: sizes[first] for name, first in firsts.items()}}
        yield space.completed({name: min(size, 2 * MOST_NUMBER) for name, size in full.items()})


class _Evaluation:
    """The values of single elements that depend on sizes alone, by variable."""

    def __init__(self, columns: Columns, changed: Collection[int], count: int) -> None:
        self.columns, self.changed, self.count = columns, changed, count
        self.known: dict[Var, Array] = {}
        self.outcomes: list[Array] = []

    def sequence(self, seq: SeqExpr) -> None:
        for binding in seq.bindings():
            value = binding.value
            if isinstance(value, If):
                condition = self.value(value.cond)
                if condition is not None and isinstance(value.cond, PrimValue):
                    self._add(condition)
                self.sequence(value.true_branch)
                self.sequence(value.false_branch)
                continue
            known = self.value(value)
            if known is not None:
                self.known[binding.var] = known

    def value(self, value: Expr) -> Array | None:
        """Returns a value at each candidate; None if it depends on data, or is unknown."""
        if isinstance(value, Var) and value in self.known:
            return self.known[value]
        if isinstance(value, PrimValue) and isinstance(value.value, int | Poly):
            return self.sizes(value.value)
        if isinstance(value, Constant):
            return value.data.reshape(-1)[0] if value.data.size == 1 else None
        if type(value) is Call and type(value.op) is Op:
            return self._call(value)
        info = value.struct_info
        shape = value.dims if isinstance(value, ShapeExpr) else getattr(info, "dims", None)
        is_shape = isinstance(value, ShapeExpr) or isinstance(info, ShapeStructInfo)
        return self.sizes(shape[0]) if is_shape and shape and len(shape) == 1 else None

    def _call(self, call: Call) -> Array | None:
        if not _has_one_element(call):
            return None
        args = [self.value(arg) for arg in call.args]
        if not args or any(arg is None for arg in args):
            return None
        if len(args) == 1 and isinstance(call.args[0], ShapeExpr) and not call.attrs:
            return args[0]
        try:
            result = elementwise_value(call, args)
        except (StructIRError, ValueError, KeyError, TypeError):
            return None
        if result is not None and id(call) in self.changed:
            self._record(call, args, result)
        return result

    def _record(self, call: Call, args: list[Any], result: Array) -> None:
        """Adds a condition, or the signs of the margins of another decision."""
        if np.asarray(result).dtype == bool:
            self._add(result)
            return
        for values in evaluated_margins(call, margins_of(call), args):
            if values is not None:
                self._add(np.sign(values))

    def _add(self, values: Array) -> None:
        values = np.broadcast_to(np.asarray(values, np.int8), (self.count,))
        if values.min() != values.max():
            self.outcomes.append(values)

    def sizes(self, dim: Dim) -> Array | None:
        """Returns the value of a dim at each candidate; None if it depends on others."""
        symbols = syms(dim)
        if not {sym.name for sym in symbols} <= self.columns.keys():
            return None
        try:
            with np.errstate(all="ignore"):
                return np.broadcast_to(self._polynomial(dim), (self.count,))
        except StructIRError:
            return None

    def _polynomial(self, dim: Dim) -> Any:
        if type(dim) is not Poly:
            return np.int64(dim)
        total: Any = np.int64(dim.constant)
        for monomial, coefficient in dim.terms.items():
            term: Any = np.int64(coefficient)
            for atom in monomial:
                term = term * (self.columns[atom.name] if type(atom) is Sym else self._atom(atom))
            total = total + term
        return total

    def _atom(self, atom: Opaque) -> Any:
        if atom.fn == "select":
            condition, chosen, other = map(self._polynomial, atom.args)
            return np.where(condition, chosen, other)
        function = VECTORIZED.get(atom.fn, FUNCTIONS[atom.fn])
        return np.asarray(function(*map(self._polynomial, atom.args))).astype(np.int64)


def _has_one_element(call: Call) -> bool:
    info = call.struct_info
    shape = info.dims if isinstance(info, TensorStructInfo) else None
    return isinstance(shape, tuple) and all(type(dim) is int and dim == 1 for dim in shape)
