"""Ops as values: a name, and the definition that declares everything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from structir.errors import Span
from structir.ir.expr import OPERATORS, Call, Expr
from structir.ir.node import node
from structir.lazy import lazy_module

if TYPE_CHECKING:
    from structir.ir.struct_info import StructInfo


class OpDefinition(Protocol):
    """What the floors above an op may ask of it; `ops.define` answers from the op line."""

    name: str
    pure: bool
    operator: str | None

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names under which the arguments of a call are written."""
        ...

    @property
    def of_sizes(self) -> tuple[bool, ...]:
        """For each argument of a call, whether it is made of sizes, not a value of the program."""
        ...

    @property
    def leading(self) -> int:
        """How many arguments are written by place; the others follow a static attribute."""
        ...

    def deduce(self, call: Call) -> StructInfo:
        """The StructInfo of a call's result; raises DiagnosticError where the call is wrong."""
        ...

    def bind(self, args: tuple[Any, ...], keywords: dict[str, Any], span: Span | None) -> Call:
        """A call from arguments written in the order and under the names of the signature."""
        ...


@node
class Op(Expr):
    """A primitive of the language."""

    name: str
    definition: OpDefinition
    struct_info: None = None
    span: None = None

    def __call__(self, *args: Any, **keywords: Any) -> Call:
        """A call of the op, arguments as in the text: `R.sum(x, axis=[0])`."""
        return self.definition.bind(args, keywords, None)


_ops: dict[str, Op] = {}
families = lazy_module("structir.ops")  # the rooms above declare the ops; they load on first need


def register_op(definition: OpDefinition) -> Op:
    """Make the op of a definition known under its name."""
    made = Op(definition.name, definition)
    _ops[definition.name] = made
    if definition.operator is not None:
        OPERATORS[definition.operator] = made
    return made


def find_op(name: str) -> Op | None:
    """The op of this name, as written after `R.`."""
    families.load()
    return _ops.get(name)


def registered_ops() -> Iterator[Op]:
    """Every op, in the order of declaration."""
    families.load()
    return iter(_ops.values())
