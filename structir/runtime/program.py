"""Compiles regions in functions: runs of bindings become one call each; other bindings remain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import attrs

from structir.analysis.donation import donated_of, state_of
from structir.analysis.variables import variables_in
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowVar,
    Expr,
    Function,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.kernel import Kernel
from structir.ir.node import node, replace
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.loops.program.expression import NoKernelError
from structir.loops.regions.leaves import as_leaves
from structir.loops.regions.region import (
    Lowered,
    LoweredRegion,
    RegionLowering,
    RoutineOf,
    host_routine,
)
from structir.runtime.compiled_region import CompiledRegion, lowered_region
from structir.runtime.equal_layers import LEAST, Layers, equal_layers
from structir.runtime.extended_kernels import extended
from structir.runtime.kernel_sequence import Assumed, KernelSequence

MAX_BINDINGS = 1024  # bindings of one region after calls are inlined
RESULT_INDEX = 1 << 60  # the index of a sequence's result among its bindings
Shapes = Mapping[Var, tuple[Dim, ...]]


@node
class RegionCall(Expr):
    """A compiled region applied to variables; its value is the tuple of its results."""

    region: CompiledRegion
    inputs: tuple[Var, ...]
    results: Any  # the tuple structure of the results, by number
    struct_info: StructInfo | None = None
    span: None = None


@attrs.frozen(eq=False)
class WholeRegion:
    """A function that is one region, with the tuple structure of its result by buffers."""

    region: CompiledRegion
    result: Lowered


class HostProgram:
    """The functions of a module, rewritten around compiled regions."""

    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        make: Callable[[LoweredRegion, Assumed | None], CompiledRegion] = lowered_region,
        routine_of: RoutineOf = host_routine,
        functions: Mapping[str, Function] | None = None,
        omits_layers: bool = True,
    ) -> None:
        self.kernels, self.make, self.routine_of = kernels, make, routine_of
        self.omits_layers = omits_layers and routine_of is host_routine
        self.functions = functions or {}
        self.regions: list[CompiledRegion] = []
        self.open: set[Var] = set()  # tensors of unknown sizes that nested functions receive

    def _lowering(
        self,
        assumed: Mapping[Sym, Dim] | None = None,
        shapes: Mapping[Var, tuple[Dim, ...]] | None = None,
    ) -> RegionLowering:
        """Returns an empty region, with assumed sizes and shapes."""
        return RegionLowering(assumed, shapes, self.kernels, self.routine_of, self.functions)

    def function(self, function: Function) -> Function:
        """Returns the function with its regions compiled."""
        return replace(function, body=self.sequence(function.body))

    def whole(self, function: Function) -> WholeRegion | None:
        """Returns the function as one region, if it is one and all parameters are tensors, or
        tuples of tensors."""
        donated = _donated_parameters(function)
        if any([isinstance(p.struct_info, TupleStructInfo) for p in donated]):
            return None
        copies = not donated and self.routine_of is host_routine
        whole = WholeFunction(function, self._lowering, donated, copies, self.omits_layers)
        try:
            compiled = self._compiled(whole.lowered(), whole.lowered)
        except NoKernelError:
            return None
        if compiled.free_symbols:
            return None
        self.regions.append(compiled)
        return WholeRegion(compiled, whole.result)

    def whole_with_calls(
        self, function: Function, inlined: Callable[[], Any]
    ) -> WholeRegion | None:
        """Returns the function as one region, after inlining calls if this makes it one."""
        region = self.whole(function)
        if region is None:
            larger = inlined()
            if larger is not function and len(larger.bindings()) <= MAX_BINDINGS:
                region = self.whole(larger)
        return region

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        """Returns a sequence with runs of bindings compiled to regions."""
        bindings = seq.bindings()
        last_use = {v: i for i, b in enumerate(bindings) for v in variables_in(b) if v is not b.var}
        last_use |= dict.fromkeys(variables_in(seq.body), RESULT_INDEX)
        steps: list[Binding] = []
        run = RegionBindings(self._lowering())
        for index, binding in enumerate(bindings):
            if (
                isinstance(binding, VarBinding)
                and not self._grows(binding)
                and run.try_add(binding)
            ):
                continue
            if any(v in run.lowering.values for v in variables_in(binding)):
                steps += self._close_run(run, last_use, index)
                run = RegionBindings(self._lowering())
            steps.append(self._on_host(binding))
        steps += self._close_run(run, last_use, len(bindings))
        return SeqExpr((BindingBlock(tuple(steps)),), seq.body, seq.struct_info, seq.span)

    def _grows(self, binding: VarBinding) -> bool:
        """Whether a call appends rows to a value that grows during a loop."""
        added = rows_added(binding.value)
        grows = added is not None and added[0] in self.open
        self.open |= {binding.var} if grows else set()
        return grows

    def _on_host(self, binding: Binding) -> Binding:
        value = self._rewritten(binding.value)
        return binding if value is binding.value else replace(binding, value=value)

    def _rewritten(self, value: Expr) -> Expr:
        match value:
            case If():
                return replace(
                    value,
                    true_branch=self.sequence(value.true_branch),
                    false_branch=self.sequence(value.false_branch),
                )
            case Function():
                self.open |= {p for p in value.params if is_open(p.struct_info)}
                return self.function(value)
        return value

    def _close_run(self, run: RegionBindings, last_use: dict[Var, int], end: int) -> list[Binding]:
        """Returns the bindings that replace a run: one call, and its results by name."""
        results = [b.var for b in run.bindings if last_use.get(b.var, -1) >= end]
        if not run.lowering.stages or not results:
            return list(run.bindings)

        def lower_again(equal: Mapping[Sym, Dim], shapes: Shapes) -> LoweredRegion:
            lowering = self._lowering(equal, shapes)
            for binding in run.bindings:
                lowering.add(binding)
            return lowering.region(results)

        region = self._compiled(run.lowering.region(results), lower_again)
        self.regions.append(region)
        inputs = tuple(run.lowering.inputs)
        outputs = tuple([run.lowering.values[v] for v in results])
        infos = [_info_of(lowered) for lowered in outputs]
        fields = tuple([DataflowVar(v.name, i) for v, i in zip(results, infos, strict=True)])
        outputs_var = DataflowVar("region", Tuple(fields).struct_info or TensorStructInfo())
        call = VarBinding(
            outputs_var,
            RegionCall(region, inputs, number_buffers(outputs), outputs_var.struct_info),
        )
        names = [
            VarBinding(v, TupleGetItem(outputs_var, k, v.struct_info))
            for k, v in enumerate(results)
        ]
        return [call, *names]

    def _compiled(
        self,
        region: LoweredRegion,
        lower_again: Callable[[Mapping[Sym, Dim], Shapes], LoweredRegion],
    ) -> CompiledRegion:
        equal = usual_equations(region)
        assumed = None
        if equal:
            buffers = region.program.inputs
            shapes = {v: b.shape for v, b in zip(region.inputs, buffers, strict=True)}
            assumed = Assumed(lower_again(equal, shapes), equal)
        return self.make(region, assumed)


class WholeFunction:
    """A function that is lowered as one region. With `omits_layers`, some of several equal layers
    are omitted, and their kernels are added."""

    def __init__(
        self,
        function: Function,
        new_lowering: Callable[[Mapping[Sym, Dim] | None, Shapes | None], RegionLowering],
        donated: Mapping[Var, int],
        copies: bool,
        omits_layers: bool,
    ) -> None:
        self.new_lowering, self.donated = new_lowering, donated
        self.params: dict[Var, Expr] = {
            p: as_leaves(p) if isinstance(p.struct_info, TupleStructInfo) else p
            for p in function.params
        }
        self.copies = copies
        self.var = DataflowVar("result", function.ret_struct_info)
        self.bindings = [*function.bindings(), VarBinding(self.var, function.body.body)]
        many = omits_layers and len(self.bindings) >= LEAST
        self.layers = equal_layers(self.bindings) if many else None
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


def _donated_parameters(function: Function) -> dict[Var, int]:
    """Returns the parameters whose memory a result may take, and the index of the result."""
    if not function.attrs:
        return {}
    pairs = {**donated_of(function), **dict(state_of(function).values())}
    return {function.params[param]: result for param, result in pairs.items()}


def is_open(info: StructInfo | None) -> bool:
    """Whether a value is a tensor of known rank and unknown sizes."""
    return isinstance(info, TensorStructInfo) and info.dims is None and info.ndim is not None


def rows_added(value: Expr) -> tuple[Expr, tuple[Expr, ...]] | None:
    """Returns the tensor that a call appends rows to, and the rows."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return None
    definition: Any = value.op.definition
    hook = definition.hooks.get("rows_added")
    appended: tuple[Expr, tuple[Expr, ...]] | None = hook(value) if hook else None
    return appended


def number_buffers(lowered: Lowered, numbers: Iterator[int] | None = None) -> Any:
    """Replaces the buffers of a lowered value by consecutive numbers."""
    numbers = count() if numbers is None else numbers
    if isinstance(lowered, tuple):
        return tuple([number_buffers(item, numbers) for item in lowered])
    return next(numbers)


def arrange(shape: Any, results: Sequence[Any]) -> Any:
    """Arranges results in the tuples that the numbers describe."""
    if isinstance(shape, tuple):
        return tuple([arrange(item, results) for item in shape])
    return results[shape]


class RegionBindings:
    """Collects bindings of one region, while they can be lowered."""

    def __init__(self, lowering: RegionLowering) -> None:
        self.lowering = lowering
        self.bindings: list[VarBinding] = []

    def try_add(self, binding: VarBinding) -> bool:
        """Adds one binding to the region, if it has a loop form."""
        try:
            self.lowering.add(binding)
        except NoKernelError:
            return False
        self.bindings.append(binding)
        return True


def usual_equations(region: LoweredRegion) -> dict[Sym, Dim]:
    """Returns equations between sizes that could broadcast but usually are equal, by symbol."""
    inputs = {dims.as_sym(d) for b in region.program.inputs for d in b.shape}
    equations: dict[Sym, Dim] = {}
    equal_symbols: dict[Dim, list[Sym]] = {}
    for check in region.checks:
        symbol = dims.as_sym(check.left)
        if check.loose and symbol is not None and symbol in inputs:
            equal_symbols.setdefault(check.right, []).append(symbol)
    for symbols in equal_symbols.values():
        first = min(symbols, key=lambda s: s.order)
        representative = equations.get(first, dims.as_dim(first))
        for symbol in symbols:
            if symbol is not first and symbol not in equations:
                equations[symbol] = representative
    return equations


def _info_of(lowered: Lowered) -> StructInfo:
    """Returns the StructInfo of a lowered value."""
    if isinstance(lowered, tuple):
        return TupleStructInfo(tuple([_info_of(item) for item in lowered]))
    return TensorStructInfo(lowered.shape, lowered.dtype)
