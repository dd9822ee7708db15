"""Compiled regions: from arrays to arrays, through the plan for their sizes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from structir.backend.cpu.intrinsics import STORED_AS
from structir.backend.cpu.runner import address_of
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import Expression, Position, walk
from structir.backend.plan import BoundPlan, BoundPlans, Plan
from structir.backend.region import Region, SizeCheck, buffers_of
from structir.backend.sizes import symbols_of
from structir.errors import ShapeMismatchError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import EXTENDED

Array = Any


@attrs.frozen
class Assumed:
    """A region under equations between sizes that usually hold: symbols stand for others."""

    region: Region
    equal: Mapping[Sym, Dim]


class CompiledRegion:
    """A region with its kernels, ready to be called with its inputs' arrays in order.

    Where the equations of `assumed` hold, that form of the region runs instead.
    """

    def __init__(self, region: Region, assumed: Assumed | None = None) -> None:
        self.region, self.assumed = region, assumed
        self.inputs = region.program.inputs
        self._plans: dict[bool, Plan] = {}
        self._bound = BoundPlans()
        self._addresses = [_address_function(b) for b in self.inputs]
        given = {dims.as_sym(d) for b in self.inputs for d in b.shape}
        self.free_symbols = [s for s in _symbols_of(region) if s not in given]
        self._doubtful = _maybe_negative(region)
        self._result_addresses: dict[Plan, list[Any]] = {}
        self._lock = threading.Lock()

    def plan(self, under_assumptions: bool) -> Plan:
        """The plan of the general region, or of the one under assumptions, made once."""
        with self._lock:
            if under_assumptions not in self._plans:
                assumed = self.assumed.region if self.assumed else self.region
                region = assumed if under_assumptions else self.region
                results = [b for o in region.outputs for b in buffers_of(o)]
                self._plans[under_assumptions] = made = Plan(region.program, results)
                self._result_addresses[made] = [_address_function(b) for b in made.owned]
            return self._plans[under_assumptions]

    def prepare(self) -> Plan:
        """Compile what will most likely run."""
        return self.plan(self.assumed is not None)

    def plans(self) -> list[Plan]:
        """The plans made so far."""
        return list(self._plans.values())

    def __call__(
        self, arrays: Sequence[Array], sizes: Mapping[Sym, int] | None = None, out: Any = None
    ) -> list[Array]:
        """The results' arrays; `sizes` gives the symbols that the inputs' shapes do not."""
        key: Any = tuple([a.shape for a in arrays])
        if self.free_symbols:
            key = (key, tuple([(sizes or {})[s] for s in self.free_symbols]))
        bound = self.bound(key)
        if bound is None:
            bound = self.bind(key, arrays, sizes or {})
        return self.run(bound, arrays, out)

    def bound(self, key: Any) -> BoundPlan | None:
        """The plan for these sizes, if it has been bound before."""
        return self._bound.get(key)

    def run(self, bound: BoundPlan, arrays: Sequence[Array], out: Any = None) -> list[Array]:
        """The results at sizes that are bound; inputs that are not dense are copied."""
        space = bound.workspace()
        table, copies = space.addresses, []
        for k, (array, address) in enumerate(zip(arrays, self._addresses, strict=True)):
            try:
                table[k] = address(array)
            except TypeError:
                copies.append(_dense(array))
                table[k] = address(copies[-1])
        owned = [np.empty(s, d) for s, d in bound.owned_forms] if out is None else out
        places = enumerate(self._result_addresses[bound.plan], len(arrays))
        for array, (k, address) in zip(owned, places, strict=True):
            table[k] = address(array)
        bound.run(space)
        return owned if bound.plan.results == bound.plan.owned else _results(bound, arrays, owned)

    # the first call with new sizes

    def bind(self, key: Any, arrays: Sequence[Array], sizes: Mapping[Sym, int]) -> BoundPlan:
        """Check the sizes, and lay out the plan for them."""
        known = self.symbol_sizes(arrays, sizes)
        for check in self.region.checks:
            _check(check, known)
        for size in self._doubtful:
            if dims.evaluate(size, known) < 0:
                raise ShapeMismatchError(
                    f"the size {dims.text(size)} would be {dims.evaluate(size, known)}"
                )
        plan = self.plan(self._assumptions_hold(known))
        found = plan.bound([known[s] for s in plan.symbols])
        self._bound.put(key, found)
        return found

    def _assumptions_hold(self, known: Mapping[Sym, int]) -> bool:
        if self.assumed is None:
            return False
        return all(known[s] == dims.evaluate(d, known) for s, d in self.assumed.equal.items())

    def symbol_sizes(self, arrays: Sequence[Array], sizes: Mapping[Sym, int]) -> dict[Sym, int]:
        """The size of every symbol, read off the inputs' shapes."""
        known: dict[Sym, int] = dict(sizes)
        for buffer, array in zip(self.inputs, arrays, strict=True):
            if len(array.shape) != len(buffer.shape):
                raise _mismatch(buffer, f"{len(buffer.shape)} axes", f"shape {array.shape}")
            for dim, size in zip(buffer.shape, array.shape, strict=True):
                symbol = dims.as_sym(dim)
                if symbol is not None:
                    known.setdefault(symbol, size)
        for buffer, array in zip(self.inputs, arrays, strict=True):
            for axis, (dim, size) in enumerate(zip(buffer.shape, array.shape, strict=True)):
                expected = dims.evaluate(dim, known)
                if expected != size:
                    stated = f"{dims.text(dim)} = {expected} on axis {axis}"
                    raise _mismatch(buffer, stated, str(size))
        return known


def _maybe_negative(region: Region) -> list[Dim]:
    """The sizes of buffers that are not sure to be a size at all, such as `n - 3`."""
    sizes = {d: None for buffer in region.program.buffers() for d in buffer.shape}
    return [d for d in sizes if (least := dims.bounds(d)[0]) is None or least < 0]


def _check(check: SizeCheck, known: Mapping[Sym, int]) -> None:
    left, right = dims.evaluate(check.left, known), dims.evaluate(check.right, known)
    if left != right and not (check.loose and left == 1):
        stated = f"{dims.text(check.left)} = {left}, {dims.text(check.right)} = {right}"
        raise ShapeMismatchError(f"{check.what}: sizes {left} and {right} do not fit: {stated}")


def _mismatch(buffer: Buffer, expected: str, found: str) -> ShapeMismatchError:
    return ShapeMismatchError(f"{buffer}: expected {expected}, found {found}")


def _address_function(buffer: Buffer) -> Any:
    stored = buffer.dtype
    if stored in EXTENDED:  # numba knows no such elements: seen as the words that hold them
        words = address_of(STORED_AS[stored], len(buffer.shape))
        return lambda array: words(array.view(STORED_AS[stored]))
    if stored == "float16":
        words = address_of("uint16", len(buffer.shape))
        return lambda array: words(array.view("uint16"))
    return address_of(stored, len(buffer.shape))


def _dense(array: Array) -> Array:
    return np.array(array, order="C", copy=True, ndmin=array.ndim)


def _results(bound: BoundPlan, arrays: Sequence[Array], owned: Sequence[Array]) -> list[Array]:
    """The results where they are not just the buffers that were filled."""
    plan = bound.plan
    memory = dict(zip(plan.owned, owned, strict=True))
    memory |= dict(zip(plan.program.inputs, arrays, strict=True))
    shapes = dict(zip(plan.program.outputs, bound.output_shapes, strict=True))
    found = []
    for buffer in plan.results:
        root = buffer.root
        array = memory.get(root, root.data)
        found.append(array if buffer.base is None else array.reshape(shapes[buffer]))
    return found


def _symbols_of(region: Region) -> list[Sym]:
    """The program's symbols that a region mentions anywhere."""
    found = [d for b in region.program.buffers() for d in b.shape]
    found += [d for c in region.checks for d in (c.left, c.right)]
    axes: set[Sym] = set()
    for stage in region.program.stages:
        axes |= set(stage.axes)
        found += [*stage.extents.values(), *[g.value for g in stage.guards]]
        found += stage.routine.sizes if stage.routine is not None else ()
        entries = [*stage.write, *[e for read in stage.loads for e in read.entries]]
        found += [e for e in entries if not isinstance(e, Expression)]
        found += [n.dim for n in walk(stage.body) if isinstance(n, Position)]
    return [s for s in symbols_of(found) if s not in axes]
