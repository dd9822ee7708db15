"""`structir.infer`: a module with every StructInfo completed, in both directions."""

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
from structir.solver.program.learn_policy import POLICIES, policy_of
from structir.solver.program.rewriter import Rewriter, count_entry_checks
from structir.solver.program.unsat_core import UnsatCore, explain
from structir.solver.program.value_trees import has_all_sizes, leaves, tensors


def infer(module: IRModule, *, learn: str | None = None, close: bool = False) -> IRModule:
    """The module with every StructInfo completed from annotations, operands and results.

    `learn` says what a proof about a named size does to a signature: `guard` keeps the signature
    and checks the fact on entry, `refine` rewrites the signature, `strict` refuses. Without it each
    function's own `R.function(learn=...)` holds; else a private one is refined, others guarded.
    `close` gives parameters of which too little is known the least shape that their uses allow: a
    choice.
    """
    if learn is not None and learn not in POLICIES:
        raise StructIRError(f"learn is one of {', '.join(POLICIES)}, not {learn!r}")
    module = as_module(module, "structir.infer")
    completed = _complete_twice(module, learn, close)
    if _may_hold_dead_code(module) and not well_formed(completed):
        # what can never run contradicts what was found around it: signatures stay
        return _complete_twice(module, "guard", close)
    return completed


def _may_hold_dead_code(module: IRModule) -> bool:
    """Whether some of it need not run: branches and closures."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    return any(isinstance(b.value, If | Function) for f in functions for b in f.bindings())


def _complete_twice(module: IRModule, learn: str | None, close: bool) -> IRModule:
    completed, more = _complete_module(module, learn, close)
    # what is checked on entry, or chosen, is stated from there on, and more may follow from it
    return _complete_module(completed, learn, close)[0] if more else completed


def _complete_module(module: IRModule, learn: str | None, close: bool) -> tuple[IRModule, bool]:
    """What one hearing gives, and whether a second one may give more: functions check more on entry
    than they did, or parameters have shapes that were chosen or ranks that were unknown."""
    heard = generate_constraints(module, close=close)
    functions = dict(module.functions)
    globals_: dict[str, StructInfo] = {}
    more = False
    for name, generator in heard.items():
        rewriter = Rewriter(generator, globals_, learn or policy_of(module[name]))
        made = rewriter.function(module[name])
        functions[name] = made
        globals_[name] = made.struct_info
        more |= count_entry_checks(made) > count_entry_checks(module[name])
        both = zip(made.params, module[name].params, strict=True)
        changed = [(new, old) for new, old in both if new is not old]
        more |= any(
            close or _has_more_ranks(new.struct_info, old.struct_info) for new, old in changed
        )
    return module.with_functions(functions), more


def _has_more_ranks(new: StructInfo, old: StructInfo) -> bool:
    """Whether the rank of some tensor is known in one StructInfo and not in another."""
    both = zip(tensors(new), tensors(old), strict=True)
    return any(a.ndim is not None and b.ndim is None for a, b in both)


def generate_constraints(
    module: IRModule, *, close: bool = False
) -> dict[str, ConstraintGenerator]:
    """Every function of a module heard and solved, callees before callers.

    Closing is for the functions that no other calls: a helper serves the shapes of its callers.
    """
    heard: dict[str, ConstraintGenerator] = {}
    schemes: dict[str, Scheme] = {}
    calls = _call_graph(module)
    for name in _callees_first(calls):
        heard[name] = generator = solve_function(module[name], schemes)
        schemes[name] = generator.scheme()
    if close:
        called = {callee for callees in calls.values() for callee in callees}
        for name in [name for name in heard if name not in called]:
            _default_params(module[name], heard[name])
    return heard


def _default_params(function: Function, generator: ConstraintGenerator) -> None:
    """Choose shapes for the parameters whose annotation leaves something open."""
    incomplete = [param for param in function.params if not has_all_sizes(param.struct_info)]
    values = [value for param in incomplete for value in leaves(generator.trees[param])]
    with generator.rollback_on_conflict():
        defaulting.close(generator.solver, values)
        generator.solve()


def solve_function(function: Function, schemes: Mapping[str, Scheme]) -> ConstraintGenerator:
    """A function heard and solved; an impossible one is an error that says why."""
    try:
        return _generate(function, schemes, 0 if _may_be_empty(function) else 1)
    except _FunctionUnsatisfiable as first:
        try:
            return _generate(function, schemes, 0)  # sizes may be 0 after all
        except _FunctionUnsatisfiable:
            raise Unsatisfiable(explain(first.generator.solver, first.conflict)) from None


def _may_be_empty(function: Function) -> bool:
    """Whether a function says of some size on entry that it may be 0, or is."""
    checked = [b.struct_info for b in function.bindings() if isinstance(b, MatchCast)]
    known = [p.struct_info for p in function.params] + checked
    if any(type(i.dims) is tuple and 0 in i.dims for info in known for i in tensors(info)):
        return True
    return any(map(allows_zero, [f for b in function.bindings() for f in conditions_of(b)]))


class Unsatisfiable(StructInfoError):
    """No run of a function can be clean; `explanation` tells which statements see to that."""

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
    """The functions of a module that each of them calls."""
    return {
        name: [
            part.name
            for part in walk(function)
            if isinstance(part, GlobalVar) and part.name in module.functions
        ]
        for name, function in module.functions.items()
        if isinstance(function, Function)
    }


def _callees_first(calls: Mapping[str, list[str]]) -> Iterator[str]:
    """Functions, callees before callers where there is no cycle."""
    done: set[str] = set()
    for root in calls:
        stack = [(root, iter(calls[root]))]
        on_stack = {root}
        while stack:
            name, below = stack[-1]
            following = next((c for c in below if c in calls and c not in done | on_stack), None)
            if following is not None:
                on_stack.add(following)
                stack.append((following, iter(calls[following])))
                continue
            stack.pop()
            if name not in done:
                done.add(name)
                yield name
