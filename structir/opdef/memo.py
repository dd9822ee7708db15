"""Memoizes facts derived from calls, keyed by call structure.

Two calls have the same structure if their ops, attributes and argument StructInfos are equal. Deep
programs have few structures, which makes the memo effective.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

from structir.errors import StructIRError
from structir.ir.expr import Call, Constant, PrimValue, ShapeExpr, Tuple, Var
from structir.ir.op import Op, clear_on_redeclaration
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

if TYPE_CHECKING:
    from structir.projections.spec import IndexSpec

Fact = TypeVar("Fact")

MEMO_SIZE = 4096  # call structures; the memo is cleared when it is full
MAX_CONSTANT_SIZE = 64  # elements; larger constants are not part of a key
Facts = dict[Any, Any]  # of calls of one structure, by the function that derives each
_FACTS: dict[Hashable, Facts] = {}
_MISSING: Any = object()
clear_on_redeclaration(_FACTS.clear)


def memoize(derive: Callable[[Call], Fact], call: Call) -> Fact:
    """Returns `derive(call)`, computed once per call structure.

    All calls of a structure share the symbols in the fact: callers rename them or only read them.
    """
    return derived(facts_of(call), derive, call)


def derived(facts: Facts, derive: Callable[[Call], Fact], call: Call) -> Fact:
    """Returns `derive(call)`, computed once in `facts`, the memo of the call's structure."""
    fact: Fact = facts.get(derive, _MISSING)
    if fact is _MISSING:
        fact = facts[derive] = derive(call)
    return fact


def spec_of(value: Any) -> IndexSpec | None:
    """Returns the loops of a call of an op, memoized; None where it has none, or is invalid."""
    if type(value) is not Call or type(value.op) is not Op:
        return None
    try:
        spec: IndexSpec | None = memoize(_index_spec, value)
    except StructIRError:  # reported at run time
        return None
    return spec


def _index_spec(call: Call) -> Any:
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    return definition.index_spec(call) if hasattr(definition, "index_spec") else None


def facts_of(call: Call) -> Facts:
    """Returns the memo of the call's structure; a new one if no other call can share its facts."""
    structure = structure_of(call)
    facts = None if structure is None else _FACTS.get(structure)
    if facts is None:
        facts = {}
        if structure is not None:
            if len(_FACTS) >= MEMO_SIZE:
                _FACTS.clear()
            facts = _FACTS.setdefault(structure, facts)
    return facts


def structure_of(call: Call) -> Hashable | None:
    """Returns the memo key of a call; None where dims are unknown or arguments are unusual."""
    args = tuple([_of_argument(arg) for arg in call.args])
    if None in args:
        return None
    attributes = tuple(call.attrs.items())
    structure = (call.op, attributes, tuple([type(v) for _, v in attributes]), args)
    try:
        hash(structure)
    except TypeError:
        return None
    return structure


def _of_argument(arg: Any) -> Hashable | None:
    kind = type(arg)
    if kind is ShapeExpr:
        return arg.dims  # type: ignore[no-any-return]
    if kind is PrimValue:
        return kind, type(arg.value), arg.value
    if kind is Tuple:
        fields = tuple([_of_argument(field) for field in arg.fields])
        return None if None in fields else (kind, fields)
    if kind is Constant:
        small = arg.data.size <= MAX_CONSTANT_SIZE
        return (kind, arg.struct_info, arg.data.tobytes()) if small else None
    if isinstance(arg, Var) and _is_known(arg.struct_info):
        return arg.struct_info
    return None


def _is_known(info: StructInfo | None) -> bool:
    """Returns whether all dims of a value are known."""
    if isinstance(info, TupleStructInfo):
        return all(map(_is_known, info.fields))
    return isinstance(info, TensorStructInfo) and type(info.dims) is tuple
