"""Conversion of a block of bindings to an e-graph, and of selected terms back to bindings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from structir.analysis.deduction import deduce
from structir.analysis.lattice import PASS, base_check
from structir.analysis.purity import is_pure_value
from structir.analysis.variables import shape_variables_in, variables_in
from structir.errors import StructIRError
from structir.ir.binding_dims import bound_dims
from structir.ir.expr import (
    ATOMS,
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import ObjectStructInfo, ShapeStructInfo
from structir.rewriting.egraph.graph import EGraph
from structir.rewriting.egraph.terms import VARIABLES, with_operands

Selection = Mapping[int, int]  # a term by class


class BlockGraph:
    """The e-graph of a block: pure calls are terms, all other bindings are variables.

    A binding that stays as it is must be computed before the values that use it, and in the order
    of the block. `live` are the variables that are used after the block.
    """

    def __init__(self, block: BindingBlock, live: Collection[Var], has_checks: Any = None) -> None:
        self.block = block
        self.graph = EGraph()
        self.numbers: dict[Var, int] = {}  # the term of each variable of the block
        self.stays: dict[int, Binding] = {}  # bindings that stay as they are, by term
        self.needs: dict[int, list[Var]] = {}  # variables of the block that they use
        self._has_checks = has_checks or (lambda value: False)
        self._last: int | None = None
        for binding in block.bindings:
            self._enter(binding)
        is_dataflow = isinstance(block, DataflowBlock)
        self.live = [
            var for var in self.numbers if var in live or (is_dataflow and type(var) is Var)
        ]
        self.graph.rebuild()

    @property
    def roots(self) -> list[int]:
        """The terms that every selection computes."""
        stays = [self.numbers[binding.var] for binding in self.stays.values()]
        return [*stays, *[self.numbers[var] for var in self.live]]

    def original(self) -> dict[int, int]:
        """Returns the selection of the terms of the block itself."""
        selection: dict[int, int] = {}
        for number in range(len(self.graph.terms)):
            selection.setdefault(self.graph.find(number), number)
        return selection

    def used_bindings(self) -> list[Binding]:
        """Returns the bindings of the block without unused terms."""
        used, kept = set(self.live), list[Binding]()
        for binding in reversed(self.block.bindings):
            if binding.var in used or self.numbers[binding.var] in self.stays:
                kept.append(binding)
                used.update(variables_in((binding.value, binding.var.struct_info)))
        return kept[::-1]

    def _enter(self, binding: Binding) -> None:
        """Adds one binding."""
        var, value = binding.var, binding.value
        if isinstance(binding, MatchCast) or not self._is_term(var, value):
            self._enter_variable(binding)
            return
        number = self._number(value)
        self.numbers[var] = number
        self.graph.refine(number, var.struct_info)

    def _is_term(self, var: Var, value: Expr) -> bool:
        """Returns whether a value is a pure call, a tuple, a constant or an alias."""
        if _names_a_shape(var) or shape_variables_in(var.struct_info):
            return False
        if type(value) is not Call:
            is_plain = isinstance(value, Tuple | TupleGetItem) or type(value) in ATOMS
            return is_plain and value.struct_info is not None
        if type(value.op) is not Op or value.sinfo_args or not is_pure_value(value):
            return False
        return not _assumes_sizes(value) and not self._has_checks(value)

    def _enter_variable(self, binding: Binding) -> None:
        parts = (binding.value, binding.var.struct_info)
        needs = [var for var in variables_in(parts) if var in self.numbers]
        before = [self.numbers[var] for var in needs]
        if self._last is not None:
            before.append(self._last)
        number = self.graph.add(binding.var, tuple(dict.fromkeys(before)))
        self.stays[number], self.needs[number] = binding, needs
        self.numbers[binding.var] = self._last = number
        if isinstance(binding, MatchCast):
            for symbol in bound_dims([binding.struct_info]):
                self.graph.binders.setdefault(symbol, number)

    def _number(self, value: Any) -> int:
        """Adds a value and its operands."""
        if type(value) in VARIABLES:
            known = self.numbers.get(value)
            return self.graph.add(value) if known is None else known
        if type(value) in ATOMS:
            return self.graph.add_atom(value)
        if type(value) is Call:
            parts = value.args
        else:
            parts = value.fields if type(value) is Tuple else (value.tuple_value,)
        return self.graph.add(value, tuple([self._number(part) for part in parts]))

    def block_of(self, selection: Selection) -> BindingBlock | None:
        """Returns the block that computes the selected terms; None if a StructInfo is lost."""
        return _Emission(self, selection).run()


def _names_a_shape(var: Var) -> bool:
    """Returns whether StructInfos may mention a variable, which then keeps its binding."""
    info = var.struct_info
    return type(info) is ObjectStructInfo or (type(info) is ShapeStructInfo and info.dims is None)


def _assumes_sizes(call: Call) -> bool:
    """Returns whether a call is checked at run time, such as for equal sizes."""
    assumptions: Callable[[Call], Any] | None = getattr(call.op.definition, "assumptions", None)  # type: ignore[attr-defined]
    try:
        return assumptions is not None and bool(tuple(assumptions(call)))
    except StructIRError:
        return True


class _Emission:
    """The bindings of selected terms, in an order that can run."""

    def __init__(self, source: BlockGraph, selection: Selection) -> None:
        self.source, self.graph, self.selection = source, source.graph, selection
        self.kind = DataflowVar if isinstance(source.block, DataflowBlock) else Var
        self.bindings: list[Binding] = []
        self.values: dict[int, Expr] = {}  # the emitted atom of each class
        self.defined: set[Var] = set()
        self.fresh = 0  # variables that the block did not have
        self.names: dict[int, Var] = {}  # the first variable of the block of each class
        kept = {*source.live, *[var for each in source.needs.values() for var in each]}
        for var, number in source.numbers.items():
            known = self.names.get(self.graph.find(number))
            if known is None or (known not in kept and var in kept):
                self.names[self.graph.find(number)] = var

    def run(self) -> BindingBlock | None:
        """Returns the block; None if a value is less precise than its variable."""
        for number in self.source.stays:
            before = all(
                self.emit(self.graph.find(child)) for child in self.graph.terms[number].children
            )
            if not before or not self.stay(number):
                return None
        for number in self.source.roots:
            if not self.emit(self.graph.find(number)):
                return None
        if not all(map(self.define, self.source.live)):
            return None
        return replace(self.source.block, bindings=tuple(self.bindings))

    def emit(self, root: int) -> bool:
        """Emits a class after the classes that it uses."""
        todo = [(root, False)]
        while todo:
            number, is_ready = todo.pop()
            if number in self.values:
                continue
            term = self.graph.terms[self.selection[number]]
            if is_ready:
                if not self.bind(number, self.selection[number]):
                    return False
                continue
            todo.append((number, True))
            todo += [(self.graph.find(child), False) for child in reversed(term.children)]
        return True

    def bind(self, number: int, chosen: int) -> bool:
        """Emits the selected term of a class, whose operands are emitted."""
        term = self.graph.terms[chosen]
        if term.is_variable:
            self.values[number] = term.value
            return chosen not in self.source.stays or self.stay(chosen)
        if term.is_atom:
            self.values[number] = term.value
            return True
        operands = [self.values[self.graph.find(child)] for child in term.children]
        value = with_operands(term.value, operands)
        if type(value) is Tuple and number not in self.names:
            self.values[number] = value
            return True
        info = deduce(value)
        value = with_operands(term.value, operands, info)
        var = self.names.get(number)
        if var is None or var in self.defined:
            self.fresh += 1
            var = self.kind(f"lv{self.fresh}", info)
        elif base_check(var.struct_info, info) is not PASS:
            return False
        self.append(VarBinding(var, value, var.span))
        self.values[number] = value if type(value) is Tuple else var
        return True

    def append(self, binding: Binding) -> None:
        self.bindings.append(binding)
        self.defined.add(binding.var)

    def stay(self, number: int) -> bool:
        """Emits a binding that stays as it is, after aliases of the variables that it uses."""
        if self.source.stays[number].var in self.defined:
            return True
        if not all(map(self.define, self.source.needs[number])):
            return False
        self.append(self.source.stays[number])
        return True

    def define(self, var: Var) -> bool:
        """Emits a binding of a variable of the block to its class, unless there is one."""
        if var in self.defined:
            return True
        value = self.values[self.graph.find(self.source.numbers[var])]
        info = value.struct_info
        if info is not None and base_check(var.struct_info, info) is not PASS:
            return False
        self.append(VarBinding(var, value, var.span))
        return True
