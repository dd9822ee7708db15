"""Functions that are one region: the lowering of all their bindings, but of some equal layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from structir.ir.dims import Dim, Sym
from structir.ir.expr import Binding, DataflowVar, Function, Var, VarBinding
from structir.loops.regions.leaves import as_leaves
from structir.loops.regions.region import Lowered, LoweredRegion, RegionLowering
from structir.runtime.equal_layers import Layers, equal_layers
from structir.runtime.extended_kernels import extended
from structir.runtime.kernel_sequence import KernelSequence

Shapes = Mapping[Var, tuple[Dim, ...]]


class WholeFunction:
    """A function that is lowered as one region. On the host, some of several equal layers are
    omitted, and their kernels are added."""

    def __init__(
        self,
        function: Function,
        new_lowering: Callable[[Mapping[Sym, Dim] | None, Shapes | None], RegionLowering],
        donated: Mapping[Var, int],
        on_host: bool,
    ) -> None:
        self.new_lowering, self.donated = new_lowering, donated
        self.params = {param: as_leaves(param) for param in function.params}
        self.copies = on_host and not donated
        self.var = DataflowVar("result", function.ret_struct_info)
        self.bindings = [*function.bindings(), VarBinding(self.var, function.body.body)]
        self.layers = equal_layers(self.bindings) if on_host else None
        self.result: Lowered = None  # the last one

    def lowered(
        self, assumed: Mapping[Sym, Dim] | None = None, shapes: Shapes | None = None
    ) -> LoweredRegion:
        """Returns the region, with assumed sizes and shapes; raises NoKernelError if the function
        is no region."""
        layers = self.layers
        lowering = None if layers is None else self._without_some(layers, assumed, shapes)
        if layers is None or lowering is None:
            return self._complete(assumed, shapes)

        def complete(
            sequence: KernelSequence, write: Callable[[LoweredRegion], KernelSequence]
        ) -> KernelSequence:
            whole = extended(sequence, layers, lowering)
            if whole is None:
                return write(self._complete(assumed, shapes))
            return attrs.evolve(
                whole, schedule=lambda: write(self._complete(assumed, shapes)).scheduled
            )

        return attrs.evolve(self._region(lowering), complete=complete)

    def _complete(self, assumed: Mapping[Sym, Dim] | None, shapes: Shapes | None) -> LoweredRegion:
        """Returns the region of all bindings."""
        lowering = self._entered(assumed, shapes)
        _add(lowering, self.bindings)
        return self._region(lowering)

    def _region(self, lowering: RegionLowering) -> LoweredRegion:
        self.result = lowering.values[self.var]
        return lowering.region([self.var], self.donated, self.copies)

    def _entered(self, assumed: Mapping[Sym, Dim] | None, shapes: Shapes | None) -> RegionLowering:
        """Returns a new lowering, with the parameters: tensors, or tuples of new variables."""
        lowering = self.new_lowering(assumed, shapes)
        for param, leaves in self.params.items():
            lowering.values[param] = lowering.lowered(leaves)
        return lowering

    def _without_some(
        self, layers: Layers, assumed: Mapping[Sym, Dim] | None, shapes: Shapes | None
    ) -> RegionLowering | None:
        """Lowers all bindings but those of omitted layers; returns None if a layer has conditions
        of its own on sizes, which must not be omitted."""
        lowering = self._entered(assumed, shapes)
        first = layers.start + layers.length
        _add(lowering, layers.before[:first])
        conditions = len(lowering.checks)
        _add(lowering, layers.before[first:])
        if len(lowering.checks) > conditions:
            return None
        for var, stand_in in layers.stand_ins():
            lowering.values[var] = lowering.values[stand_in]
        _add(lowering, layers.after)
        return lowering


def _add(lowering: RegionLowering, bindings: Sequence[Binding]) -> None:
    for binding in bindings:
        lowering.add(binding)
