"""Memory as part of the program: storage allocated once, and calls that fill it."""

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
    """Write out memory: values inside a function lie in storage that is allocated at its start,
    over each other where they do not live at the same time.

    Calls become `R.memory.call_into` of a tensor in storage. With `in_place`, a result is written
    over an operand that nothing reads any more, if every element is made from the one in its place.
    Sizes may be symbolic: values whose sizes are multiples of one symbolic size share storage.
    Results of the function stay as they are, and so do its branches and the functions in it.
    """
    bound = [s for s in standing_alone([p.struct_info for p in function.params]) if type(s) is Sym]
    lives = Lifetimes(function.body, bound, in_place)
    if not lives.blocks:
        return function
    found = plan_storages(list(lives.blocks.values()))
    note(_told(lives, found))
    body = _MemoryWriter(lives, found).body(function.body)
    attributes = function.attrs
    if function.is_pure and is_pure(function):
        attributes = {**attributes, FORCE_PURE: True}
    return replace(function, body=body, attrs=attributes)


def _told(lives: Lifetimes, found: list[Storage]) -> str:
    alone: Dim = sum((block.size for block in lives.blocks.values()), 0)
    whole: Dim = sum((storage.size for storage in found), 0)
    count, over = len(lives.blocks), len(lives.over)
    return f"{count} values of {text(alone)} bytes in {text(whole)}, {over} written over others"


class _MemoryWriter:
    """A function's bindings with memory written out."""

    def __init__(self, lives: Lifetimes, found: list[Storage]) -> None:
        self.lives, self.found = lives, found
        self.bindings: list[Binding] = []
        self.places: dict[Any, tuple[Var, Dim]] = {}

    def body(self, seq: SeqExpr) -> SeqExpr:
        """All blocks as one: what has effects stands in no dataflow block."""
        for storage in self.found:
            var = self._bound("storage", _op("memory.alloc_storage", PrimValue(storage.size)))
            self.places |= {block: (var, place) for block, place in storage.offsets.items()}
        plain = Substitution()
        for binding in seq.bindings():
            new: Any = plain.binding(binding)
            if type(new.var) is DataflowVar:
                var = Var(new.var.name, new.var.struct_info, new.var.span)
                plain.variables[binding.var] = var
                new = replace(new, var=var)
            block = self.lives.blocks.get(binding.var)
            self.bindings.append(new if block is None else self._filled(new, self.places[block]))
        blocks = (BindingBlock(tuple(self.bindings)),)
        return replace(seq, blocks=blocks, body=plain.part(seq.body))

    def _filled(self, binding: Any, place: tuple[Var, Dim]) -> Binding:
        storage, offset = place
        var, call = binding.var, binding.value
        info = var.struct_info
        lies = _op(
            "memory.alloc_tensor",
            storage,
            PrimValue(offset),
            ShapeExpr(info.dims),
            dtype=info.dtype,
        )
        space = self._bound(f"{var.name}_space", lies)
        if type(call.op) is GlobalVar:
            made = _op("memory.fill", call.op, space, Tuple(call.args))
        else:
            attributes = {**call.attrs, "callee": call.op.name}
            made = _op("memory.call_into", *call.args, space, **attributes)
        return VarBinding(var, replace(made, span=call.span), binding.span)

    def _bound(self, name: str, value: Call) -> Var:
        info: Any = value.struct_info
        var = Var(name, info)
        self.bindings.append(VarBinding(var, value))
        return var


def _op(name: str, *args: Any, **attributes: Any) -> Call:
    found: Any = find_op(name)
    made: Call = found.definition.bind(args, attributes, None)
    return made
