"""The contents of a program: facts of one traversal, by which a compiler selects its passes."""

from __future__ import annotations

from typing import Any

import attrs

from structir.analysis.declaration import analysis
from structir.ir.axes import size_in
from structir.ir.expr import Call, Constant, Function
from structir.ir.module import IRModule
from structir.ir.node import Node, parts
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo


@attrs.frozen
class Contents:
    """The contents of a program.

    `kinds` are the classes of its nodes and StructInfos, and those of the axes, dtype variables and
    vdevices of its tensors. `hooks` are those of the ops that it calls, `attributes` those of its
    functions.
    """

    kinds: frozenset[type]
    hooks: frozenset[str]
    attributes: frozenset[str]


@analysis
def contents_of(program: IRModule | Node) -> Contents:
    """Returns the contents of a module, a function or any other node."""
    kinds, hooks, attributes = set[type](), set[str](), set[str]()
    visited: set[int] = set()
    todo: list[Any] = [*program.functions.values()] if type(program) is IRModule else [program]
    while todo:
        item = todo.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        kind = type(item)
        kinds.add(kind)
        if kind is Function:
            attributes.update(item.attrs)
        elif kind is Call and type(item.op) is Op:
            hooks.update(getattr(item.op.definition, "hooks", ()))
        elif kind is TensorStructInfo:
            kinds.update(map(type, map(size_in, item.axes or ())))
            kinds.update((type(item.vdevice), type(item.dtype_var)))
        if kind is not Op and kind is not Constant:
            todo += [part for part in parts(item) if isinstance(part, Node)]
    return Contents(frozenset(kinds), frozenset(hooks), frozenset(attributes))
