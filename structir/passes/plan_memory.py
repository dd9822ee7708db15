"""Makes memory explicit: storage is allocated once, and calls write into it."""

from __future__ import annotations

from typing import Any

from structir.analysis.purity import FORCE_PURE, is_pure
from structir.analysis.substitution import Substitution
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Dim, Sym, text
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowVar,
    Function,
    GlobalVar,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.node import replace
from structir.ir.op import find_op
from structir.passes.base import function_pass, note
from structir.planning.storage import Lifetimes, Storage, plan_storages


@function_pass
def plan_memory(function: Function, *, in_place: bool = True) -> Function:
    """Allocates values inside a function in shared storage at its start; values with disjoint
    lifetimes overlap.

    Calls become `R.memory.call_into` of a tensor in storage. With `in_place`, a result overwrites a
    dead operand if each element depends only on the element at its own index. Sizes may be
    symbolic: values whose sizes are multiples of one symbolic size share storage. Results of the
    function, its branches and its nested functions are unchanged.
    """
    bound = [s for s in standing_alone([p.struct_info for p in function.params]) if type(s) is Sym]
    lives = Lifetimes(function.body, bound, in_place)
    if not lives.blocks:
        return function
    storage = plan_storages(list(lives.blocks.values()))
    note(_summary(lives, storage))
    body = _MemoryWriter(lives, storage).body(function.body)
    attributes = function.attrs
    if function.is_pure and is_pure(function):
        attributes = {**attributes, FORCE_PURE: True}
    return replace(function, body=body, attrs=attributes)


def _summary(lives: Lifetimes, storage: list[Storage]) -> str:
    alone: Dim = sum((block.size for block in lives.blocks.values()), 0)
    whole: Dim = sum((each.size for each in storage), 0)
    count, over = len(lives.blocks), len(lives.overwritten)
    return f"{count} values of {text(alone)} bytes in {text(whole)}, {over} written over others"


class _MemoryWriter:
    """The rewriting of a function's bindings with explicit memory."""

    def __init__(self, lives: Lifetimes, storage: list[Storage]) -> None:
        self.lives, self.storage = lives, storage
        self.bindings: list[Binding] = []
        self.offsets: dict[Any, tuple[Var, Dim]] = {}

    def body(self, seq: SeqExpr) -> SeqExpr:
        """Returns all blocks as one plain block, since dataflow blocks have no effects."""
        for block_storage in self.storage:
            var = self._bind("storage", _op("memory.alloc_storage", PrimValue(block_storage.size)))
            self.offsets |= {
                block: (var, offset) for block, offset in block_storage.offsets.items()
            }
        plain = Substitution()
        for binding in seq.bindings():
            new: Any = plain.binding(binding)
            if type(new.var) is DataflowVar:
                var = Var(new.var.name, new.var.struct_info, new.var.span)
                plain.variables[binding.var] = var
                new = replace(new, var=var)
            block = self.lives.blocks.get(binding.var)
            self.bindings.append(new if block is None else self._filled(new, self.offsets[block]))
        blocks = (BindingBlock(tuple(self.bindings)),)
        return replace(seq, blocks=blocks, body=plain.part(seq.body))

    def _filled(self, binding: Any, location: tuple[Var, Dim]) -> Binding:
        storage, offset = location
        var, call = binding.var, binding.value
        info = var.struct_info
        allocation = _op(
            "memory.alloc_tensor",
            storage,
            PrimValue(offset),
            ShapeExpr(info.dims),
            dtype=info.dtype,
        )
        space = self._bind(f"{var.name}_space", allocation)
        if type(call.op) is GlobalVar:
            call_into = _op("memory.fill", call.op, space, Tuple(call.args))
        else:
            attributes = {**call.attrs, "callee": call.op.name}
            call_into = _op("memory.call_into", *call.args, space, **attributes)
        return VarBinding(var, replace(call_into, span=call.span), binding.span)

    def _bind(self, name: str, value: Call) -> Var:
        info: Any = value.struct_info
        var = Var(name, info)
        self.bindings.append(VarBinding(var, value))
        return var


def _op(name: str, *args: Any, **attributes: Any) -> Call:
    op: Any = find_op(name)
    call: Call = op.definition.bind(args, attributes, None)
    return call
