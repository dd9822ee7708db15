"""`structir.infer`: completes every StructInfo of a module, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from structir.analysis.variables import walk
from structir.analysis.well_formed import well_formed
from structir.errors import StructInfoError, StructIRError
from structir.ir.expr import (
    Function,
    GlobalVar,
    If,
    MatchCast,
)
from structir.ir.module import IRModule, as_module
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import (
    StructInfo,
)
from structir.solver.constraints.assumptions import allows_zero
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.reasons import Conflict
from structir.solver.program import defaulting
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.refine_policy import POLICIES, policy_of
from structir.solver.program.rewriter import Rewriter, count_entry_checks
from structir.solver.program.unsat_core import UnsatCore, explain
from structir.solver.program.value_trees import has_all_sizes, leaves, tensors


def infer(module: IRModule, *, refine: str | None = None, close: bool = False) -> IRModule:
    """Returns the module with every StructInfo completed from annotations, operands and results.

    `refine` states what may change where the body narrows a named size of a signature: the
    `signature` is rewritten; `checks` keeps it and adds a check on entry; with `nothing` a narrowed
    signature is a StructInfoError. The default is the function's `R.function(refine=...)`; else
    `signature` for private functions and `checks` for others.
    `close` gives underconstrained parameters the least shape that their uses allow. Raises
    Unsatisfiable with a minimal set of conflicting source lines if no shapes satisfy the program.
    """
    if refine is not None and refine not in POLICIES:
        raise StructIRError(f"refine: expected one of {', '.join(POLICIES)}, found {refine!r}")
    module = as_module(module, "structir.infer")
    completed = _complete_twice(module, refine, close)
    if _may_contain_dead_code(module) and not well_formed(completed):
        # facts of dead code may contradict the rest of the function: keep the signatures
        return _complete_twice(module, "checks", close)
    return completed


def _may_contain_dead_code(module: IRModule) -> bool:
    """Returns whether a function has branches or closures, which need not run."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    return any(isinstance(b.value, If | Function) for f in functions for b in f.bindings())


def _complete_twice(module: IRModule, refine: str | None, close: bool) -> IRModule:
    completed, more = _complete_module(module, refine, close)
    # entry checks and defaults are now declared, and may imply more
    return _complete_module(completed, refine, close)[0] if more else completed


def _complete_module(module: IRModule, refine: str | None, close: bool) -> tuple[IRModule, bool]:
    """Returns the completed module, and whether a second round may infer more.

    It may if functions have new checks on entry, or parameters new defaults or ranks.
    """
    generators = generate_constraints(module, close=close)
    functions = dict(module.functions)
    globals_: dict[str, StructInfo] = {}
    may_infer_more = False
    for name, generator in generators.items():
        rewriter = Rewriter(generator, globals_, refine or policy_of(module[name]))
        completed = rewriter.function(module[name])
        functions[name] = completed
        globals_[name] = completed.struct_info
        may_infer_more |= count_entry_checks(completed) > count_entry_checks(module[name])
        pairs = zip(completed.params, module[name].params, strict=True)
        changed = [(new, previous) for new, previous in pairs if new is not previous]
        may_infer_more |= any(
            close or _has_more_ranks(new.struct_info, previous.struct_info)
            for new, previous in changed
        )
    return module.with_functions(functions), may_infer_more


def _has_more_ranks(new: StructInfo, previous: StructInfo) -> bool:
    """Returns whether the rank of some tensor is known only in the new StructInfo."""
    pairs = zip(tensors(new), tensors(previous), strict=True)
    return any(a.ndim is not None and b.ndim is None for a, b in pairs)


def generate_constraints(
    module: IRModule, *, close: bool = False
) -> dict[str, ConstraintGenerator]:
    """Generates and solves the constraints of every function, callees before callers.

    Defaulting applies only to functions that no other calls: a helper serves the shapes of its
    callers.
    """
    generators: dict[str, ConstraintGenerator] = {}
    schemes: dict[str, Scheme] = {}
    calls = _call_graph(module)
    for name in _callees_first(calls):
        generators[name] = generator = solve_function(module[name], schemes)
        schemes[name] = generator.scheme()
    if close:
        called = {callee for callees in calls.values() for callee in callees}
        for name in [name for name in generators if name not in called]:
            _default_params(module[name], generators[name])
    return generators


def _default_params(function: Function, generator: ConstraintGenerator) -> None:
    """Chooses shapes for the parameters with incomplete annotations."""
    incomplete = [param for param in function.params if not has_all_sizes(param.struct_info)]
    values = [value for param in incomplete for value in leaves(generator.trees[param])]
    with generator.rollback_on_conflict():
        defaulting.close(generator.solver, values)
        generator.solve()


def solve_function(function: Function, schemes: Mapping[str, Scheme]) -> ConstraintGenerator:
    """Generates and solves the constraints of one function.

    Raises Unsatisfiable with an explanation if they conflict.
    """
    try:
        return _generate(function, schemes, 0 if _allows_zero_sizes(function) else 1)
    except _FunctionUnsatisfiable as first:
        try:
            return _generate(function, schemes, 0)  # with sizes of 0
        except _FunctionUnsatisfiable:
            raise Unsatisfiable(explain(first.generator.solver, first.conflict)) from None


def _allows_zero_sizes(function: Function) -> bool:
    """Returns whether a function declares that a size is or may be 0."""
    checked = [b.struct_info for b in function.bindings() if isinstance(b, MatchCast)]
    declared = [p.struct_info for p in function.params] + checked
    if any(type(i.dims) is tuple and 0 in i.dims for info in declared for i in tensors(info)):
        return True
    return any(map(allows_zero, [f for b in function.bindings() for f in conditions_of(b)]))


class Unsatisfiable(StructInfoError):
    """No shapes satisfy a function; `explanation` is a minimal set of conflicting assertions."""

    def __init__(self, explanation: UnsatCore) -> None:
        super().__init__(explanation.diagnostic())
        self.explanation = explanation


@attrs.frozen(eq=False)
class _FunctionUnsatisfiable(Exception):
    generator: ConstraintGenerator
    conflict: Conflict


def _generate(function: Function, schemes: Mapping[str, Scheme], least: int) -> ConstraintGenerator:
    generator = ConstraintGenerator(schemes, least)
    try:
        generator.visit(function)
        generator.solve()
        generator.name_open_sizes(function.params)
    except Conflict as conflict:
        raise _FunctionUnsatisfiable(generator, conflict) from None
    return generator


def _call_graph(module: IRModule) -> dict[str, list[str]]:
    """Returns the functions of a module that each function calls."""
    return {
        name: [
            node.name
            for node in walk(function)
            if isinstance(node, GlobalVar) and node.name in module.functions
        ]
        for name, function in module.functions.items()
        if isinstance(function, Function)
    }


def _callees_first(calls: Mapping[str, list[str]]) -> Iterator[str]:
    """Yields functions, callees before callers except within cycles."""
    visited: set[str] = set()
    for root in calls:
        stack = [(root, iter(calls[root]))]
        on_stack = {root}
        while stack:
            name, callees = stack[-1]
            callee = next((c for c in callees if c in calls and c not in visited | on_stack), None)
            if callee is not None:
                on_stack.add(callee)
                stack.append((callee, iter(calls[callee])))
                continue
            stack.pop()
            if name not in visited:
                visited.add(name)
                yield name
