"""Programs whose ops are written out as kernels of their own module, fused as they are when they
are compiled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from structir.analysis.variables import variables_in
from structir.backend.loops.as_kernel import ShownKernel, shown_kernel
from structir.backend.loops.as_scalar import NotShown
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.compose import composed
from structir.backend.loops.from_point import NoKernelError
from structir.backend.loops.group import grouped
from structir.backend.region import Region, RegionLowering
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
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.node import Node, replace
from structir.ir.op import find_op
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo

AFTER_ALL = 1 << 60  # the place of a sequence's result among its bindings


def lowered(module: IRModule) -> IRModule:
    """The module with runs of ops as calls of kernels."""
    lowering = _Lowering(module)
    for name, function in module.functions.items():
        if isinstance(function, Function):
            lowering.functions[name] = lowering.function(function)
    if all(lowering.functions[name] is value for name, value in module.functions.items()):
        return module
    return module.with_functions({**lowering.kernels, **lowering.functions})


class _Lowering:
    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.functions: dict[str, Node] = dict(module.functions)
        self.kernels: dict[str, Kernel] = {}

    def function(self, function: Function) -> Function:
        """The function over calls of kernels."""
        body = self.sequence(function.body)
        return function if body is function.body else replace(function, body=body)

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        """A sequence with runs of its blocks written out."""
        bindings = seq.bindings()
        last = {v: i for i, b in enumerate(bindings) for v in variables_in(b) if v is not b.var}
        last |= dict.fromkeys(variables_in(seq.body), AFTER_ALL)
        blocks, place = [], 0
        for block in seq.blocks:
            blocks.append(_Block(self, block, place, last).lowered())
            place += len(block.bindings)
        same = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
        return seq if same else replace(seq, blocks=tuple(blocks))

    def value(self, value: Expr) -> Expr:
        """A value with what is nested in it written out."""
        match value:
            case If():
                sides = [self.sequence(s) for s in (value.true_branch, value.false_branch)]
                if sides[0] is value.true_branch and sides[1] is value.false_branch:
                    return value
                return replace(value, true_branch=sides[0], false_branch=sides[1])
            case Function():
                return self.function(value)
        return value

    def added(self, kernel: Kernel, name: str) -> GlobalVar:
        """A kernel of the module under a name of its own."""
        free, number = name, 1
        while free in self.functions or free in self.kernels:
            free, number = f"{name}_{number}", number + 1
        self.kernels[free] = replace(kernel, name=free)
        return GlobalVar(free, kernel.struct_info)


class _Block:
    """One block on its way: runs of bindings become calls of kernels."""

    def __init__(
        self, lowering: _Lowering, block: BindingBlock, place: int, last: Mapping[Var, int]
    ) -> None:
        self.lowering, self.block, self.place, self.last = lowering, block, place, last
        self.kind = DataflowVar if isinstance(block, DataflowBlock) else Var
        self.made: list[Binding] = []
        self.run: list[VarBinding] = []
        self.region = RegionLowering()
        self.changed = False

    def lowered(self) -> BindingBlock:
        """The block itself where nothing is written out."""
        for place, binding in enumerate(self.block.bindings, self.place):
            if self._takes(binding):
                continue
            self._close(place)
            if not self._takes(binding):
                self._keep(binding)
        self._close(self.place + len(self.block.bindings))
        return replace(self.block, bindings=tuple(self.made)) if self.changed else self.block

    def _takes(self, binding: Binding) -> bool:
        is_call = isinstance(binding.value, Call) and not isinstance(binding.value.op, GlobalVar)
        if not isinstance(binding, VarBinding) or not (is_call or self.run):
            return False
        if not is_call and not isinstance(binding.value, TupleGetItem | Tuple | Var):
            return False
        try:
            self.region.add(binding)
        except NoKernelError:
            return False
        self.run.append(binding)
        return True

    def _keep(self, binding: Binding) -> None:
        value = self.lowering.value(binding.value)
        if value is not binding.value:
            binding, self.changed = replace(binding, value=value), True
        self.made.append(binding)

    def _close(self, place: int) -> None:
        """Write out the run; where that cannot be, its bindings one by one, or leave them."""
        run, self.run, region = self.run, [], self.region
        self.region = RegionLowering()
        made = self._written(region, [b.var for b in run if self._is_read(b.var, place)])
        if made is not None:
            self.made += made
            self.changed = True
        elif len(run) < 2:
            self.made += run
        else:
            self._close_each(run)

    def _close_each(self, run: list[VarBinding]) -> None:
        for binding in run:
            region, made = RegionLowering(), None
            with suppress(NoKernelError):
                region.add(binding)
                made = self._written(region, [binding.var])
            self.changed = self.changed or made is not None
            self.made += [binding] if made is None else made

    def _written(self, region: RegionLowering, results: list[Var]) -> list[Binding] | None:
        """The bindings of a region as calls of kernels; None where kernels cannot say them."""
        if not region.stages or not results:
            return None
        try:
            return _Written(self, region, results).bindings()
        except (NotShown, NoKernelError):
            return None

    def _is_read(self, var: Var, place: int) -> bool:
        return self.last.get(var, -1) >= place


class _Written:
    """A region as calls of kernels, one for each group."""

    def __init__(self, block: _Block, lowering: RegionLowering, results: list[Var]) -> None:
        self.block, self.lowering, self.results = block, lowering, results
        self.region: Region = lowering.region(results)
        if self.region.checks:
            raise NotShown("sizes that must be compared when it runs")
        self.exprs: dict[Buffer, Expr] = {b: v for v, b in lowering.inputs.items()}
        self.exprs |= {b: Constant(b.data) for b in self.region.program.constants}
        self.new: list[Binding] = []
        self.shown: list[ShownKernel] = []

    def bindings(self) -> list[Binding]:
        """The calls, in an order that can run, and the results under their own names."""
        program = composed(self.region.program)
        for var, buffer in self.lowering.inputs.items():
            if getattr(var.struct_info, "dims", None) != buffer.shape:
                raise NotShown("a size that only the run tells")
        groups, _ = grouped(program)
        kernels = [(shown_kernel(group, _name(group)), _name(group)) for group in groups]
        filled = [buffer for shown, _ in kernels for buffer in shown.fills]
        if len(set(filled)) < len(filled):
            raise NotShown("several kernels fill one array")
        for shown, name in kernels:
            self._call(shown, name)
        values = [(v, self._value(self.lowering.values[v])) for v in self.results]
        return [*self.new, *[VarBinding(v, value) for v, value in values if v is not value]]

    def _call(self, shown: ShownKernel, name: str) -> None:
        operands: list[Expr] = [self._operand(buffer) for buffer in shown.reads]
        operands += [PrimValue(as_dim(symbol)) for symbol in shown.numbers]
        infos = tuple([TensorStructInfo(b.shape, b.dtype) for b in shown.fills])
        whole = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
        callee = self.block.lowering.added(shown.kernel, name)
        call = Call(callee, tuple(operands), sinfo_args=infos, struct_info=whole)
        if len(infos) == 1:
            self._bind(shown.fills[0], call, whole)
            return
        together = self.block.kind("lowered", whole)
        self.new.append(VarBinding(together, call))
        for place, (buffer, info) in enumerate(zip(shown.fills, infos, strict=True)):
            self._bind(buffer, TupleGetItem(together, place, info), info)

    def _bind(self, buffer: Buffer, value: Expr, info: Any) -> Expr:
        """Give a buffer's value the name of the result that it is, or a new one."""
        values = self.lowering.values
        same = (v for v in self.results if values[v] is buffer and v.struct_info == info)
        var = next(same, None) or self.block.kind("lowered", info)
        self.new.append(VarBinding(var, value))
        self.exprs[buffer] = var
        return var

    def _operand(self, buffer: Buffer) -> Expr:
        """The value of a buffer; memory under another shape is reshaped."""
        known = self.exprs.get(buffer)
        if known is None:
            if buffer.base is None:
                raise NotShown("a value that nothing makes")
            reshape: Any = find_op("reshape")
            call = reshape(self._operand(buffer.base), ShapeExpr(buffer.shape))
            known = self._bind(buffer, call, call.struct_info)
        return known

    def _value(self, lowered: Any) -> Expr:
        if isinstance(lowered, tuple):
            return Tuple(tuple([self._value(item) for item in lowered]))
        return self._operand(lowered)


def _name(group: Any) -> str:
    """What a kernel does, from where its stages come."""
    found = [re.match(r"R\.([\w.]+)", stage.origin) for stage in group.stages]
    names = list(dict.fromkeys(match[1].rpartition(".")[2] for match in found if match))
    return "_".join(names[:4]) or "kernel"
