"""Op values and their registry; the definition of an op declares its shape rule and its kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from structir.errors import Span
from structir.ir.expr import Call, Expr
from structir.ir.node import node
from structir.ir.operators import OPERATORS, families
from structir.lazy import lazy_module

if TYPE_CHECKING:
    from structir.ir.struct_info import StructInfo


difflib = lazy_module("difflib")
MIN_LIKENESS = 0.7  # of two names, from 0 to 1


class OpDefinition(Protocol):
    """The interface of an op to higher layers; `opdef` implements it from the index signature."""

    name: str
    pure: bool
    operator: str | None

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Returns the parameter names of the arguments of a call."""
        ...

    @property
    def of_sizes(self) -> tuple[bool, ...]:
        """Returns, for each argument of a call, whether it consists of sizes."""
        ...

    @property
    def leading(self) -> int:
        """Returns the number of leading positional arguments."""
        ...

    def deduce(self, call: Call) -> StructInfo:
        """Infers the StructInfo of a call's result; raises DiagnosticError for an invalid call."""
        ...

    def bind(self, args: tuple[Any, ...], keywords: dict[str, Any], span: Span | None) -> Call:
        """Returns a call from positional and keyword arguments."""
        ...


@node
class Op(Expr):
    """A primitive of the language."""

    name: str
    definition: OpDefinition
    struct_info: None = None
    span: None = None

    def __call__(self, *args: Any, **keywords: Any) -> Call:
        """Returns a call of the op: `R.sum(x, axis=[0])`."""
        return self.definition.bind(args, keywords, None)


_ops: dict[str, Op] = {}
_memos: list[Callable[[], None]] = []  # functions that clear memos whose keys name ops


def register_op(definition: OpDefinition) -> Op:
    """Registers the op of a definition under its name."""
    op = Op(definition.name, definition)
    for clear in _memos if definition.name in _ops else ():
        clear()
    _ops[definition.name] = op
    if definition.operator is not None:
        OPERATORS[definition.operator] = op
    return op


def find_op(name: str) -> Op | None:
    """Returns the op of a name, as written after `R.`, or None."""
    families.load()
    return _ops.get(name)


def clear_on_redeclaration(clear: Callable[[], None]) -> None:
    """Adds a function that clears a memo whose keys name ops; an op may be declared anew."""
    _memos.append(clear)


def similar_op_names(name: str) -> list[str]:
    """Returns the names of up to two ops that an unknown name resembles, the closest first.

    The part after the last dot must resemble that of the op: `random.normal` is not `grad.no_grad`.
    """
    families.load()
    near, whole = difflib.SequenceMatcher(), difflib.SequenceMatcher()
    near.set_seq2(name.rpartition(".")[2])
    whole.set_seq2(name)
    scores = dict[str, float]()
    for known in _ops:
        near.set_seq1(known.rpartition(".")[2])
        if near.real_quick_ratio() < MIN_LIKENESS or near.quick_ratio() < MIN_LIKENESS:
            continue  # most ops, by a bound on the ratio
        whole.set_seq1(known)
        if near.ratio() >= MIN_LIKENESS:
            scores[known] = max(near.ratio(), whole.ratio())
    return sorted(scores, key=lambda known: (-scores[known], known))[:2]


def registered_ops() -> Iterator[Op]:
    """Yields every op in the order of declaration."""
    families.load()
    return iter(_ops.values())
