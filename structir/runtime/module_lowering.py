"""Lowers ops to kernels of the module itself, fused as in compilation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from structir.analysis.variables import variables_in
from structir.batching.combinators import expanded
from structir.ir.dims import as_dim
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.kernel import Element, Kernel, Literal, nodes_of
from structir.ir.module import IRModule
from structir.ir.node import Node, replace
from structir.ir.op import find_op
from structir.ir.requirements import cast_of, condition
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.loops.fusion.group import Group, grouped
from structir.loops.fusion.log import FusionLog
from structir.loops.kernel.as_kernel import ShownKernel, shown_kernel
from structir.loops.kernel.schedule import scheduled_kernel
from structir.loops.lower.as_scalar import NotShown
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import NoKernelError
from structir.loops.regions.region import LoweredRegion, RegionLowering
from structir.loops.rewrite.view_inlining import with_inlined_views
from structir.runtime.kernel_sequence import doubtful_sizes

RESULT_INDEX = 1 << 60  # the index of a sequence's result among its bindings


Shown = Callable[[Sequence[Group], str], ShownKernel]


def lowered(module: IRModule, log: FusionLog | None = None) -> IRModule:
    """Returns the module with runs of ops as calls of kernels in plain loops; adds the fusion
    decisions to `log`."""
    return _lowered(module, shown_kernel, log or FusionLog())


def scheduled(module: IRModule) -> IRModule:
    """Returns the module with runs of ops as calls of scheduled CPU kernels."""
    return _lowered(module, scheduled_kernel, FusionLog())


def _lowered(module: IRModule, shown: Shown, log: FusionLog) -> IRModule:
    module = expanded(module)
    lowering = _Lowering(module, shown, log)
    for name, function in module.functions.items():
        if isinstance(function, Function):
            lowering.functions[name] = lowering.function(function)
    if all(lowering.functions[name] is value for name, value in module.functions.items()):
        return module
    return module.with_functions({**lowering.kernels, **lowering.functions})


class _Lowering:
    def __init__(self, module: IRModule, shown: Shown, log: FusionLog) -> None:
        self.module, self.shown, self.log = module, shown, log
        self.functions: dict[str, Node] = dict(module.functions)
        self.kernels: dict[str, Kernel] = {}
        self.numbers: Counter[str] = Counter()  # how often each name was requested

    def function(self, function: Function) -> Function:
        """Lowers a function to calls of kernels."""
        body = self.sequence(function.body)
        return function if body is function.body else replace(function, body=body)

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        """Lowers the blocks of a sequence."""
        bindings = seq.bindings()
        last = {v: i for i, b in enumerate(bindings) for v in variables_in(b) if v is not b.var}
        last |= dict.fromkeys(variables_in(seq.body), RESULT_INDEX)
        blocks, start = [], 0
        for block in seq.blocks:
            blocks.append(_Block(self, block, start, last).lowered())
            start += len(block.bindings)
        same = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
        return seq if same else replace(seq, blocks=tuple(blocks))

    def value(self, value: Expr) -> Expr:
        """Lowers the sequences nested in a value."""
        match value:
            case If():
                sides = [self.sequence(s) for s in (value.true_branch, value.false_branch)]
                if sides[0] is value.true_branch and sides[1] is value.false_branch:
                    return value
                return replace(value, true_branch=sides[0], false_branch=sides[1])
            case Function():
                return self.function(value)
        return value

    def added(self, kernel: Kernel) -> GlobalVar:
        """Adds a kernel to the module under a unique name."""
        unique_name = name = kernel.name
        while unique_name in self.functions or unique_name in self.kernels:
            self.numbers[name] += 1
            unique_name = f"{name}_{self.numbers[name]}"
        self.kernels[unique_name] = replace(kernel, name=unique_name)
        return GlobalVar(unique_name, kernel.struct_info)


class _Block:
    """Lowers one block: runs of bindings become calls of kernels."""

    def __init__(
        self, lowering: _Lowering, block: BindingBlock, start: int, last: Mapping[Var, int]
    ) -> None:
        self.lowering, self.block, self.place, self.last = lowering, block, start, last
        self.kind = DataflowVar if isinstance(block, DataflowBlock) else Var
        self.new: list[Binding] = []
        self.run = _BindingRun(start)
        self.changed = False

    def lowered(self) -> BindingBlock:
        """Returns the lowered block, or the block itself if nothing is lowered."""
        for index, binding in enumerate(self.block.bindings, self.place):
            if self._try_add(binding):
                continue
            self._close(index)
            if not self._try_add(binding):
                self._keep(binding, self.run.refused)
        self._close(self.place + len(self.block.bindings))
        return replace(self.block, bindings=tuple(self.new)) if self.changed else self.block

    def _try_add(self, binding: Binding) -> bool:
        is_call = isinstance(binding.value, Call) and not isinstance(binding.value.op, GlobalVar)
        self.run.refused = "not a call of an op"
        if not isinstance(binding, VarBinding) or not (is_call or self.run.bindings):
            return False
        if not is_call and not isinstance(binding.value, TupleGetItem | Tuple | Var):
            return False
        return self.run.try_add(binding)

    def _keep(self, binding: Binding, reason: str) -> None:
        self.lowering.log.remaining.append((binding, reason))
        value = self.lowering.value(binding.value)
        if value is not binding.value:
            binding, self.changed = replace(binding, value=value), True
        self.new.append(binding)

    def _close(self, index: int) -> None:
        """Lowers the current run, except bindings that kernels cannot express."""
        pending = [self.run]
        self.run = _BindingRun(index)
        while pending:
            run = pending.pop()
            try:
                self.new += self._as_calls(run)
            except (NotShown, NoKernelError) as refused:
                reasons = refused.reasons if isinstance(refused, NotShown) else {}
                staying = {run.producers.get(b.root, -1): why for b, why in reasons.items()}
                pending += reversed(list(run.split(staying, str(refused))))

    def _as_calls(self, run: _BindingRun) -> Sequence[Binding]:
        """Returns the bindings of a run as calls of kernels."""
        end = run.start + len(run.bindings)
        results = [b.var for b in run.bindings if self._is_read(b.var, end)]
        if run.stays or not run.stages:
            reason = run.stays or "a view, which computes nothing"
            self.lowering.log.remaining += [(b, reason) for b in run.bindings]
            return run.bindings
        calls = _KernelCalls(self, run, results or [b.var for b in run.bindings]).bindings()
        self.changed = True
        return calls

    def _is_read(self, var: Var, index: int) -> bool:
        return self.last.get(var, -1) >= index


class _BindingRun(RegionLowering):
    """Bindings that are lowered together, and the binding that computes each buffer."""

    def __init__(self, start: int, staying: Sequence[VarBinding] = (), reason: str = "") -> None:
        super().__init__()
        self.start, self.stays = start, reason  # index of the first binding; why it remains
        self.refused = ""  # why the last binding was not added
        self.bindings = list(staying)
        self.producers: dict[Buffer, int] = {}

    def try_add(self, binding: VarBinding) -> bool:
        """Adds one binding, if kernels may be able to express it."""
        before = len(self.stages)
        try:
            self.add(binding)
        except NoKernelError as error:
            self.refused = error.message
            return False
        for stage in self.stages[before:]:
            self.producers[stage.out.root] = len(self.bindings)
        self.bindings.append(binding)
        return True

    def admit(self, inputs: int) -> None:
        """Raises NoKernelError for sizes known only at run time."""
        if self.checks:
            raise NoKernelError("sizes that must be compared at run time")
        for var in islice(reversed(self.inputs), len(self.inputs) - inputs):
            if getattr(var.struct_info, "dims", None) != self.inputs[var].shape:
                raise NoKernelError("a size known only at run time")

    def split(self, staying: Mapping[int, str], reason: str) -> Iterator[_BindingRun]:
        """Splits the run around bindings that remain, with reasons; in halves if these are
        unknown."""
        indices = range(len(self.bindings))
        stay = {k: why for k, why in staying.items() if k in indices}
        if not stay and len(indices) == 1:
            stay = {0: reason}
        cut = -1 if stay else len(indices) // 2
        run = _BindingRun(self.start)
        for k, binding in enumerate(self.bindings):
            if k not in stay and k != cut and run.try_add(binding):
                continue
            yield run
            run = _BindingRun(self.start + k)
            if k in stay or not run.try_add(binding):
                yield _BindingRun(self.start + k, [binding], stay.get(k) or run.refused)
                run = _BindingRun(self.start + k + 1)
        yield run


class _KernelCalls:
    """Converts a region to calls of kernels, one for each group."""

    def __init__(self, block: _Block, lowering: RegionLowering, results: list[Var]) -> None:
        self.block, self.lowering, self.results = block, lowering, results
        self.region: LoweredRegion = lowering.region(results)
        self.exprs: dict[Buffer, Expr] = {b: v for v, b in lowering.inputs.items()}
        self.exprs |= {b: Constant(b.data) for b in self.region.program.constants}
        self.new: list[Binding] = []

    def bindings(self) -> list[Binding]:
        """Returns the calls in a valid order, and the results under their original names."""
        self._require_sizes()
        program = with_inlined_views(self.region.program)
        groups, decisions = grouped(program)
        kernels = _all_shown(groups, self.block.lowering.shown)
        if any([_has_negative_index(shown.kernel) for _, shown in kernels]):
            raise NoKernelError("an index that is negative")
        names = {self._call(shown): tuple(together) for together, shown in kernels}
        self.block.lowering.log.add(self.region.program, program, decisions, names)
        values = [(v, self._value(self.lowering.values[v])) for v in self.results]
        return [*self.new, *[VarBinding(v, value) for v, value in values if v is not value]]

    def _require_sizes(self) -> None:
        """Requires the sizes of values inside kernels that may be negative: no call shows them."""
        program = self.region.program
        shown = {size for b in (*program.inputs, *program.outputs) for size in b.shape}
        sizes = [size for size in doubtful_sizes(program) if size not in shown]
        if sizes:
            shape, ones = cast_of(tuple([condition(">=", size, 0) for size in sizes]), None)
            self.new.append(MatchCast(self.block.kind("_", ones), shape, ones))

    def _call(self, shown: ShownKernel) -> str:
        """Binds a call of a kernel; returns the name of the kernel."""
        operands: list[Expr] = [self._operand(buffer) for buffer in shown.reads]
        operands += [PrimValue(as_dim(symbol)) for symbol in shown.numbers]
        infos = tuple([TensorStructInfo(b.shape, b.dtype) for b in shown.fills])
        result = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
        callee = self.block.lowering.added(shown.kernel)
        call = Call(callee, tuple(operands), sinfo_args=infos, struct_info=result)
        if len(infos) == 1:
            self._bind(shown.fills[0], call, result)
            return callee.name
        outputs = self.block.kind("lowered", result)
        self.new.append(VarBinding(outputs, call))
        for index, (buffer, info) in enumerate(zip(shown.fills, infos, strict=True)):
            self._bind(buffer, TupleGetItem(outputs, index, info), info)
        return callee.name

    def _bind(self, buffer: Buffer, value: Expr, info: Any) -> Expr:
        """Binds the value of a buffer to the name of its result, or to a new one."""
        values = self.lowering.values
        same = (v for v in self.results if values[v] is buffer and v.struct_info == info)
        var = next(same, None)
        if var is None:
            var = self.block.kind(self._name(buffer), info)
        self.new.append(VarBinding(var, value))
        self.exprs[buffer] = var
        return var

    def _name(self, buffer: Buffer) -> str:
        """Returns the name of the value of a buffer in the original program."""
        values = self.lowering.values.items()
        return next((v.name for v, value in values if value is buffer), "lowered")

    def _operand(self, buffer: Buffer) -> Expr:
        """Returns the value of a buffer; memory under another shape is reshaped."""
        value = self.exprs.get(buffer)
        if value is None:
            if buffer.base is None:
                raise NotShown("a value without a producer")
            reshape: Any = find_op("reshape")
            call = reshape(self._operand(buffer.base), ShapeExpr(buffer.shape))
            value = self._bind(buffer, call, call.struct_info)
        return value

    def _value(self, lowered: Any) -> Expr:
        if isinstance(lowered, tuple):
            return Tuple(tuple([self._value(item) for item in lowered]))
        return self._operand(lowered)


def _has_negative_index(kernel: Kernel) -> bool:
    """Whether an index is negative, as of a slice that promises to be in bounds and is not."""
    indices = [i for node in nodes_of(kernel) if isinstance(node, Element) for i in node.indices]
    return any([isinstance(index, Literal) and index.value < 0 for index in indices])


def _all_shown(groups: Sequence[Group], shown: Shown) -> list[tuple[list[Group], ShownKernel]]:
    """Returns the kernels of all groups; raises once for all stages that have no kernel form."""
    kernels: list[tuple[list[Group], ShownKernel]] = []
    refused: dict[Buffer, str] = {}
    for together in _by_results(groups):
        try:
            kernels.append((together, shown(together, _name(together))))
        except NotShown as error:
            refused |= error.reasons
    if refused:
        raise NotShown("some stages have no kernel form", refused)
    return kernels


def _by_results(groups: Sequence[Group]) -> list[list[Group]]:
    """Returns the groups of each kernel: those that fill one buffer, at the last of them."""
    kernels: list[list[Group]] = []
    for group in groups:
        filled = _outs(group) & group.kept
        same = [k for k in kernels if any(filled & g.kept & _outs(g) for g in k)]
        kernels = [k for k in kernels if k not in same]
        kernels.append([*[g for k in same for g in k], group])
    return kernels


def _outs(group: Group) -> set[Buffer]:
    return {stage.out for stage in group.stages}


def _name(groups: Sequence[Group]) -> str:
    """Returns a kernel name from the origins of its stages."""
    stages = [stage for group in groups for stage in group.stages]
    matches = [re.match(r"R\.([\w.]+)", stage.origin) for stage in stages]
    names = list(dict.fromkeys(match[1].rpartition(".")[2] for match in matches if match))
    return "_".join(names[:4]) or "kernel"
