"""Equal layers of a function: bindings that repeat, with other constants and parameters.

A layer is a run of bindings. The next one has the same ops over values of the same StructInfo; it
reads what its predecessor reads one layer later, and constants or parameters of its own. Some of
the layers are lowered; `extended` writes the kernels of the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs

from structir.ir.expr import (
    Binding,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.kernel import Kernel
from structir.ir.op import Op
from structir.loops.regions.region import origin_of

LOWERED = 4  # layers that are lowered: the first, the last, and two between equal neighbours
LEAST = 6  # layers from which on this pays
MOST_COMPARED = 1024  # elements of constants whose elements are compared
MOST_PERIODS = 8  # candidates for the length of a layer

Leaf = Var | Constant


@attrs.frozen(eq=False)
class Layers:
    """Equal layers among the bindings of a function: `count` runs of `length` bindings, from
    `start` on. `leaves` are the constants and parameters of the layers, by their place in a layer,
    each with those of all layers."""

    bindings: Sequence[Binding]
    start: int
    length: int
    count: int
    leaves: Sequence[Sequence[Leaf]]

    @property
    def omitted(self) -> int:
        """The number of layers that are not lowered."""
        return self.count - LOWERED

    @property
    def before(self) -> Sequence[Binding]:
        """The bindings before the layers that are not lowered."""
        return self.bindings[: self.start + LOWERED * self.length]

    @property
    def after(self) -> Sequence[Binding]:
        """The bindings after all layers."""
        return self.bindings[self.start + self.count * self.length :]

    def layer(self, number: int) -> Sequence[Binding]:
        """Returns the bindings of a layer."""
        first = self.start + number * self.length
        return self.bindings[first : first + self.length]

    def origins(self, kernels: Mapping[str, Kernel]) -> Iterable[tuple[str, ...]]:
        """Yields the origin of the call of each binding, in all layers."""
        for place in range(self.length):
            values = [self.layer(number)[place].value for number in range(self.count)]
            if all(isinstance(value, Call) for value in values):
                yield tuple([_origin(v, kernels) for v in values if isinstance(v, Call)])

    def stand_ins(self) -> Iterable[tuple[Var, Var]]:
        """Yields the variables of the last two layers, and those of the layers lowered in their
        place."""
        for number in (self.count - 2, self.count - 1):
            pairs = zip(self.layer(number), self.layer(number - self.omitted), strict=True)
            for own, lowered in pairs:
                yield own.var, lowered.var


def equal_layers(bindings: Sequence[Binding]) -> Layers | None:
    """Returns the equal layers of a function that are worth extending, if there are any. The last
    binding is that of its result."""
    if len(bindings) < LEAST or any(isinstance(b.value, Function | If) for b in bindings):
        return None  # functions and branches capture values, which have no leaves
    search = _Search(bindings)
    runs = [(search.longest_run(period), period) for period in search.periods()]
    best = max(runs, key=lambda run: run[0][1], default=None)
    if best is None:
        return None
    (start, length), period = best
    count = length // period + 1
    if count < LEAST:
        return None
    leaves = search.leaves_of_layers(start, period, count)
    layers = Layers(bindings, start, period, count, leaves or ())
    return layers if leaves is not None and search.may_omit(layers) else None


class _Search:
    """The search for layers among bindings, which are compared by keys and leaves."""

    def __init__(self, bindings: Sequence[Binding]) -> None:
        self.bindings = bindings
        self.index: dict[Expr, int] = {b.var: k for k, b in enumerate(bindings)}
        numbers: dict[Hashable, int] = {}
        self.keys: list[int] = []
        self.leaves: list[list[Leaf]] = []
        for binding in bindings:
            leaves: list[Leaf] = []
            key = (type(binding), binding.var.struct_info, _key(binding.value, leaves))
            try:
                self.keys.append(numbers.setdefault(key, len(numbers)))
            except TypeError:  # an attribute that has no hash
                self.keys.append(-1 - len(self.keys))
            self.leaves.append(leaves)

    def periods(self) -> list[int]:
        """Returns candidates for the length of a layer: the distances of bindings that are rare,
        but in enough layers."""
        places: dict[int, list[int]] = {}
        for place, key in enumerate(self.keys):
            places.setdefault(key, []).append(place)
        often = sorted([p for p in places.values() if len(p) >= LEAST], key=len)
        distances = [b - a for each in often[:MOST_PERIODS] for a, b in pairwise(each)]
        return list(dict.fromkeys(distances))[:MOST_PERIODS]

    def longest_run(self, period: int) -> tuple[int, int]:
        """Returns the longest run of bindings that are equal to those one period later."""
        best, start = (0, 0), 0
        for place in range(len(self.keys) - period + 1):
            is_end = place + period == len(self.keys)
            if is_end or not self._is_repeated(place, place + period):
                best = max(best, (start, place - start), key=lambda run: run[1])
                start = place + 1
        return best

    def _is_repeated(self, place: int, later: int) -> bool:
        return self.keys[place] == self.keys[later] and all(
            self._is_shifted(a, b, later - place)
            for a, b in zip(self.leaves[place], self.leaves[later], strict=True)
        )

    def _is_shifted(self, leaf: Leaf, later: Leaf, period: int) -> bool:
        """Whether two layers read the same value, values one layer apart, or each its own constant
        or parameter."""
        if leaf is later:
            return True
        first, second = self.index.get(leaf), self.index.get(later)
        if first is None or second is None:
            return first is None and second is None
        return second - first == period

    def leaves_of_layers(self, start: int, period: int, count: int) -> list[list[Leaf]] | None:
        """Returns the constants and parameters of the layers; None if layers share some of them, or
        have some twice."""
        columns: dict[Any, list[Leaf]] = {}
        layer_of: dict[Any, int] = {}
        for place in range(start, start + period):
            rows = [self.leaves[place + period * k] for k in range(count)]
            for column in zip(*rows, strict=True):
                first = column[0]
                if first in self.index or all(identity_of(x) == identity_of(first) for x in column):
                    continue
                known = columns.setdefault(identity_of(first), list(column))
                if any(
                    identity_of(a) != identity_of(b) for a, b in zip(known, column, strict=True)
                ):
                    return None
                for layer, leaf in enumerate(column):
                    if layer_of.setdefault(identity_of(leaf), layer) != layer:
                        return None
        return list(columns.values())

    def may_omit(self, layers: Layers) -> bool:
        """Whether the bindings after the layers read only the last two of them, no constants or
        parameters of layers, and nothing of what the first one reads in place of a layer before
        it."""
        end = layers.start + layers.count * layers.length
        omitted = range(max(layers.start - layers.length, 0), end - 2 * layers.length)
        own = {identity_of(leaf) for column in layers.leaves for leaf in column}
        read = [leaf for leaves in self.leaves[end:] for leaf in leaves]
        return not any(
            self.index.get(leaf, -1) in omitted or identity_of(leaf) in own for leaf in read
        )


def _origin(call: Call, kernels: Mapping[str, Kernel]) -> str:
    if isinstance(call.op, Op):
        return origin_of(call)
    name = kernels[call.op.name].name  # type: ignore[attr-defined]
    return name if call.span is None else f"{name} at {call.span}"


def identity_of(leaf: Leaf) -> int:
    """Returns the identity of a parameter, or of the elements of a constant."""
    return id(leaf.data) if isinstance(leaf, Constant) else id(leaf)


def _key_of_data(constant: Constant, leaves: list[Leaf]) -> Hashable:
    """Returns the key of a constant. Kernels depend on elements that are no floats, and on one
    element, which is a number in their code."""
    data = constant.data
    if data.size == 1:
        return Constant, constant.struct_info, data.tobytes()
    leaves.append(constant)
    if data.dtype.kind == "f":
        return Constant, constant.struct_info
    return (
        Constant,
        constant.struct_info,
        data.tobytes() if data.size <= MOST_COMPARED else id(data),
    )


def _key(value: Any, leaves: list[Leaf]) -> Hashable:
    """Returns the key of an expression, without its variables and constants: they are added to
    `leaves`."""
    kind = type(value)
    if isinstance(value, Var):
        leaves.append(value)
        return Var, value.struct_info
    if kind is Constant:
        return _key_of_data(value, leaves)
    if kind is Call and isinstance(value.op, Op | GlobalVar):
        op = value.op if isinstance(value.op, Op) else value.op.name
        args = tuple([_key(arg, leaves) for arg in value.args])
        attributes = tuple(value.attrs.items())  # and their text: 1 is not True, 0.0 is not -0.0
        return kind, op, args, attributes, repr(attributes), value.sinfo_args
    if kind is Tuple:
        return kind, tuple([_key(field, leaves) for field in value.fields])
    if kind is TupleGetItem:
        return kind, _key(value.tuple_value, leaves), value.index
    if kind is PrimValue:
        return kind, repr(value.value), value.value, value.struct_info
    if kind is ShapeExpr:
        return kind, value.dims
    return id(value)
