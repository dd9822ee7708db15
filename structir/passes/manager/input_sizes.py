"""Chooses sizes for the inputs of a function: pairwise different, and valid for the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from random import Random
from typing import Any

import attrs

from structir.analysis.axes import axes_of
from structir.analysis.variables import walk, walk_values
from structir.errors import StructIRError
from structir.ir.axes import RowVar, size_in
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Dim, Opaque, Poly, Sym, as_atom, as_sym, evaluate, syms
from structir.ir.expr import Call, Expr, Function, GlobalVar, MatchCast, Var
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.memo import spec_of
from structir.passes.manager.kernel_steps import Loop, is_long, loops_of, steps
from structir.system.locks import cached_property

# One prime is larger than a vector, and one larger than a tile.
SIZES = (3, 17, 2, 5, 4, 67, 7, 6, 8, 1)
FEW = (3, 2, 4, 5, 1, 6, 7, 8)  # for kernels, which are interpreted element by element
MULTIPLES = (12, 16, 24, 32, 64, 9, 10, 48, 20, 15, 100, 128)
MOST_CONSTANTS = 12
LARGEST = 512  # of sizes that occur in the program
MOST_ELEMENTS = 1 << 22  # of all inputs, beyond those of the smallest inputs
MOST_VALUES = 1 << 24  # elements of all values of a run, beyond those at sizes of 1
ROW_ELEMENTS = 32  # of the axes of a row variable, about
ALL_EQUAL = 8  # the number of the candidate in which all sizes are equal
ALL_ONES = 9  # the number of the candidate with the shortest runs
ALL_CASTS = 1  # the number of the candidate that satisfies all casts, if they equate sizes
MOST_PASSES = 32  # operations for each element where no op accumulates products
TRIES = 300  # of random sizes, each checked against the conditions known before a run

Sizes = dict[str, int]
Shape = tuple[Dim, ...]


@attrs.frozen
class SizeSpace:
    """The symbolic dims of the parameters, and what the program states of them."""

    params: tuple[Var, ...]  # after refinement by the casts of the program
    names: tuple[str, ...]
    classes: Mapping[Sym, Sym]  # the first dim among those that must be equal
    equal: tuple[tuple[Dim, Dim], ...]
    conditions: tuple[Dim, ...]
    pool: tuple[int, ...]
    shapes: Mapping[Shape, int]  # how many variables have each shape
    values: Mapping[Shape, int]  # the same of the values that a run computes, also in callees
    cast_sizes: Mapping[Sym, Sym | int]  # the first dim or number to which all casts equate a dim
    loops: Counter[Loop]  # of interpreted kernels
    function: Function

    @cached_property
    def contracts(self) -> bool:
        """Whether an op may accumulate products, or a function is called."""
        return any(map(_contracts, walk_values(self.function)))

    def proposals(self, fixed: Mapping[str, int], seed: int) -> Iterator[Sizes]:
        """Yields candidate sizes, each once; those that meet all known conditions come first.

        Inputs have at most `MOST_ELEMENTS` more elements than the smallest ones, unless sizes are
        fixed.
        """
        settled: set[tuple[int, ...]] = set()  # proposed, or costly
        most = MOST_ELEMENTS + self.elements(dict.fromkeys(self.names, 1))
        for strict in (True, False):
            for sizes in self._candidates(fixed, Random(seed)):
                key = tuple(sizes.values())
                if key in settled or (strict and not self.allows(sizes)):
                    continue
                settled.add(key)
                if fixed or not (self.elements(sizes) > most or self.is_costly(sizes)):
                    yield sizes

    def elements(self, sizes: Sizes) -> int:
        """Returns the number of elements of the tensor parameters; other sizes count as 1."""
        values = {sym: sizes[sym.name] for sym in self.classes}
        return sum(prod(_known(dim, values) for dim in _sizes(param)) for param in self.params)

    def work(self, sizes: Sizes, other: int = 1, most: int | None = None) -> int:
        """Returns a bound for the operations of a run: the elements of each variable, times its
        longest axis, along which an op may accumulate, or `most`. Other sizes count as `other`."""
        total = 0
        for shape, count in self._shapes_at(self.shapes, sizes, other):
            longest = max(shape, default=1)
            total += count * prod(shape) * (longest if most is None else min(longest, most))
        return total

    def operations(self, sizes: Sizes) -> int:
        """Returns a closer bound for the operations of a run: few for each element, where no op
        accumulates products."""
        return self.work(sizes, most=None if self.contracts else MOST_PASSES)

    def is_costly(self, sizes: Sizes) -> bool:
        """Whether a run at these sizes would take long, or much memory."""
        return bool(sizes) and (self._is_slow(sizes) or self._is_large(sizes))

    def _shapes_at(
        self, shapes: Mapping[Shape, int], sizes: Sizes, other: int
    ) -> Iterator[tuple[list[int], int]]:
        """Yields shapes at these sizes, and how many values have each."""
        values = {sym: sizes[sym.name] for sym in self.classes}
        sizes_of = {dim: _known(dim, values, other) for shape in shapes for dim in shape}
        for shape, count in shapes.items():
            yield [sizes_of[dim] for dim in shape], count

    def _is_large(self, sizes: Sizes) -> bool:
        return self.computed(sizes) > MOST_VALUES + self._least_computed

    @cached_property
    def _least_computed(self) -> int:
        return self.computed(dict.fromkeys(self.names, 1))

    def computed(self, sizes: Sizes) -> int:
        """Returns the number of elements of all values. Other sizes count as the largest one."""
        shapes = self._shapes_at(self.values, sizes, max(sizes.values(), default=1))
        return sum(count * prod(shape) for shape, count in shapes)

    def _is_slow(self, sizes: Sizes) -> bool:
        """Whether kernels, which run element by element, would take long at these sizes."""
        return is_long(self.steps(sizes), self.least_steps)

    def steps(self, sizes: Sizes) -> int:
        """Returns the operations of interpreted kernels. Other sizes count as the largest one."""
        values = {sym: sizes[sym.name] for sym in self.classes}
        other = max(sizes.values(), default=1)
        return steps(self.loops, lambda dim: _known(dim, values, other))

    @cached_property
    def least_steps(self) -> int:
        """The operations of interpreted kernels at sizes of 1."""
        return self.steps(dict.fromkeys(self.names, 1))

    def _candidates(self, fixed: Mapping[str, int], rng: Random) -> Iterator[Sizes]:
        firsts = list(dict.fromkeys(self.classes.values()))
        for number in range(TRIES):
            chosen = (
                list(self.pool[: len(firsts)]) if not number else self._sample(rng, len(firsts))
            )
            if number == ALL_EQUAL:
                chosen = [self.pool[0]] * len(firsts)
            if number == ALL_ONES and self.loops:
                chosen = [1] * len(firsts)
            size_of = dict(zip(firsts, chosen, strict=False))
            sizes = {sym: size_of[first] for sym, first in self.classes.items()}
            if number == ALL_CASTS:
                sizes = {sym: self._cast_size(sym, sizes) for sym in sizes}
            named = {sym.name: size for sym, size in sizes.items()}
            yield {**self.completed(named), **fixed}

    def _cast_size(self, sym: Sym, sizes: Mapping[Sym, int]) -> int:
        """Returns the size that all casts require of a dim, or the size of its first equal."""
        first = self.cast_sizes.get(sym, sym)
        return first if isinstance(first, int) else sizes.get(first, sizes[sym])

    def _sample(self, rng: Random, count: int) -> list[int]:
        """Returns different sizes; those beyond the pool are sampled with repetition."""
        pool = self.pool if rng.random() < 0.8 else (*self.pool, *MULTIPLES)
        if count <= len(pool) and rng.random() < 0.8:
            return rng.sample(pool, count)
        return rng.choices(pool, k=count)

    @cached_property
    def solved(self) -> tuple[tuple[Sym, Dim], ...]:
        """The dims that a condition equates with an expression of others."""
        atoms = [as_atom(condition) for condition in self.conditions]
        pairs = [a.args for a in atoms if type(a) is Opaque and a.fn == "eq"]
        both = [pair for a, b in (*self.equal, *pairs) for pair in ((a, b), (b, a))]
        known: dict[Sym, Dim] = {}
        for side, other in both:
            sym = as_sym(side)
            among = syms(other) - {sym}
            is_new = sym in self.classes and sym not in known and as_sym(other) is None
            if is_new and sym is not None and sym not in syms(other) and among:
                known[sym] = other
        return tuple(known.items())

    def completed(self, sizes: Sizes) -> Sizes:
        """Returns sizes in which the dims that are expressions of others have their values."""
        for sym, expr in self.solved:
            first = self.classes[sym]
            try:
                value = evaluate(expr, {each: sizes[each.name] for each in syms(expr)})
            except (StructIRError, KeyError):
                continue
            alike = [each.name for each in self.classes if self.classes[each] is first]
            sizes = {**sizes, **dict.fromkeys(alike, max(value, 0))}
        return sizes

    def allows(self, sizes: Sizes) -> bool:
        """Whether sizes meet the conditions that involve parameters alone."""
        values = {sym: sizes[sym.name] for sym in self.classes}
        try:
            return all(evaluate(each, values) != 0 for each in self.conditions) and all(
                evaluate(left, values) == evaluate(right, values) for left, right in self.equal
            )
        except StructIRError:
            return False


def size_space(module: IRModule, function: Function, few: bool, kernels: bool) -> SizeSpace:
    """Returns the sizes that a function accepts: fewer with `few`, and small ones for `kernels`."""
    casts = [node for node in walk_values(function) if type(node) is MatchCast]
    params = tuple(_refine(param, casts) for param in function.params)
    param_dims = [
        sym for sym in standing_alone([p.struct_info for p in params]) if type(sym) is Sym
    ]
    cast_conditions = [fact for cast in casts for fact in conditions_of(cast)]
    equal = [*_assumed(function), *_cast_sizes(casts)]
    conditions = tuple(fact for fact in cast_conditions if syms(fact) <= set(param_dims))
    param_equalities = [(a, b) for a, b in equal if syms(a) | syms(b) <= set(param_dims)]
    bounds = [size for fact in conditions for size in _numbers_in(fact)]
    constants = [] if few else [size for size in _constants(function) if size not in SIZES]
    pool = dict.fromkeys([*(FEW if few else SIZES), *bounds, *constants[:MOST_CONSTANTS]])
    return SizeSpace(
        params,
        tuple(sym.name for sym in param_dims),
        _classes(param_dims, param_equalities),
        tuple(param_equalities),
        conditions,
        tuple(pool),
        Counter(_sizes(node) for node in walk_values(function) if isinstance(node, Var)),
        Counter(_computed_shapes(module, function)),
        _equated(param_dims, equal),
        loops_of(module, function) if kernels else Counter(),
        function,
    )


def _contracts(node: Any) -> bool:
    """Whether a call may compute more than some values for each element of operands and results."""
    if type(node) is not Call:
        return False
    spec = spec_of(node)
    return spec is None or any(each.reduce and len(each.reads) > 1 for each in spec.statements)


def has_kernels(module: IRModule) -> bool:
    """Whether functions may run kernels, which the interpreter runs element by element."""
    return any(isinstance(function, Kernel) for function in module.functions.values())


def _refine(param: Var, casts: Sequence[MatchCast]) -> Var:
    """Returns a parameter with the StructInfo of its cast, if that depends on it alone."""
    for cast in casts:
        if cast.value is param and _knows_more(cast.struct_info, param.struct_info):
            return Var(param.name, cast.struct_info, param.span)
    return param


def _knows_more(cast: StructInfo, own: StructInfo) -> bool:
    if not isinstance(cast, TensorStructInfo) or not isinstance(own, TensorStructInfo):
        return False
    return isinstance(cast.dims, tuple) and not isinstance(own.dims, tuple | Var)


def _assumed(function: Function) -> Iterator[tuple[Dim, Dim]]:
    """Yields the pairs of sizes that calls assume to be equal."""
    for node in walk_values(function):
        if type(node) is Call:
            yield from ((assumed.left, assumed.right) for assumed in assumptions_of(node))


def assumptions_of(call: Call) -> tuple[Any, ...]:
    """Returns the assumptions on the sizes of a call; none if the call is invalid."""
    assumptions = getattr(call.op.definition, "assumptions", None) if type(call.op) is Op else None
    try:
        return () if assumptions is None else tuple(assumptions(call))
    except StructIRError:
        return ()


def _cast_sizes(casts: Sequence[MatchCast]) -> Iterator[tuple[Dim, Dim]]:
    """Yields the pairs of sizes that casts equate."""
    for cast in casts:
        before, after = _dims(cast.value), _dims(cast.struct_info)
        if not conditions_of(cast) and len(before) == len(after):
            yield from zip(before, after, strict=True)


def _dims(value: Expr | StructInfo | None) -> tuple[Dim, ...]:
    dims = getattr(value.struct_info if isinstance(value, Expr) else value, "dims", None)
    return dims if isinstance(dims, tuple) else ()


def _sizes(value: Expr) -> tuple[Dim, ...]:
    """Returns the sizes of a tensor that are known; a row variable counts as one size."""
    return _sizes_of(value.struct_info)


def _sizes_of(info: StructInfo | None) -> tuple[Dim, ...]:
    axes = axes_of(info) if isinstance(info, TensorStructInfo) else None
    sizes = [ROW_ELEMENTS if isinstance(a, RowVar) else size_in(a) for a in axes or ()]
    return tuple([size for size in sizes if isinstance(size, int | Poly)])


def _computed_shapes(module: IRModule, function: Function) -> Iterator[tuple[Dim, ...]]:
    """Yields the known sizes of each tensor that a function or its callees bind."""
    variables: dict[Var, None] = {}
    todo, names = [function], set[str]()
    for each in todo:  # which grows
        for node in walk_values(each):
            if isinstance(node, Var):
                variables[node] = None
            elif type(node) is GlobalVar and node.name not in names:
                names.add(node.name)
                callee = module.functions.get(node.name)
                todo += [callee] if isinstance(callee, Function) else []
    infos: list[Any] = [variable.struct_info for variable in variables]
    for info in infos:  # which grows
        if isinstance(info, TupleStructInfo):
            infos += info.fields
        elif isinstance(info, TensorStructInfo):
            yield _sizes_of(info)


def _known(dim: Dim, values: Mapping[Sym, int], other: int = 1) -> int:
    """Returns a size; 1 if it is not positive, and `other` if it depends on other dims."""
    try:
        return max(1, evaluate(dim, values)) if syms(dim) <= values.keys() else other
    except StructIRError:
        return 1


def _classes(dims: Sequence[Sym], equal: Sequence[tuple[Dim, Dim]]) -> dict[Sym, Sym]:
    """Returns for each dim the first one that must be equal to it."""
    firsts = {sym: sym for sym in dims}
    for left, right in equal:
        a, b = as_sym(left), as_sym(right)
        if a in firsts and b in firsts:
            target, merged = firsts[a], firsts[b]
            firsts = {sym: target if first is merged else first for sym, first in firsts.items()}
    return firsts


def _equated(dims: Sequence[Sym], equal: Sequence[tuple[Dim, Dim]]) -> dict[Sym, Sym | int]:
    """Returns for each dim the number, or else the first dim, to which equations lead."""
    firsts: dict[Sym | int, Sym | int] = {sym: sym for sym in dims}

    def rank(dim: Sym | int) -> int:
        return 0 if isinstance(dim, int) else 1 if dim in dims else 2

    for left, right in equal:
        a, b = [side if isinstance(side, int) else as_sym(side) for side in (left, right)]
        if a is None or b is None:
            continue
        target, merged = firsts.setdefault(a, a), firsts.setdefault(b, b)
        if rank(merged) < rank(target):
            target, merged = merged, target
        firsts = {dim: target if first == merged else first for dim, first in firsts.items()}
    return {sym: firsts[sym] for sym in dims}


def _constants(function: Function) -> dict[int, None]:
    """Returns the constant sizes in a function."""
    sizes: dict[Any, None] = {}
    for node in walk(function):
        dims = getattr(node, "dims", ())
        for dim in dims if isinstance(dims, tuple) else ():
            if type(dim) is int and 0 < dim <= LARGEST:
                sizes[dim] = None
    return sizes


def _numbers_in(condition: Dim) -> Iterator[int]:
    """Yields the numbers in a comparison, as sizes near its bound."""
    atom = as_atom(condition)
    for side in atom.args if type(atom) is Opaque else ():
        number = abs(side if type(side) is int else getattr(side, "constant", 0))
        yield from (size for size in (number, number + 1, number - 1) if 0 < size <= LARGEST)
