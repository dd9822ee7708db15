"""`structir.infer`: completes every StructInfo of a module, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.analysis.axes import axes_of
from structir.analysis.calls import accepts_arguments
from structir.analysis.variables import free_symbols_in, walk_values
from structir.analysis.well_formed import check_well_formed, well_formed
from structir.errors import Diagnostic, StructInfoError, StructIRError
from structir.ir.axes import Labelled
from structir.ir.binding_dims import bound_dims
from structir.ir.dim_text import display_name, one_message
from structir.ir.expr import (
    Call,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    VarBinding,
)
from structir.ir.module import IRModule, as_module
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo
from structir.ir.structural import structural_equal
from structir.solver.constraints.assumptions import allows_zero
from structir.solver.constraints.constraint import RowEq
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.reasons import Conflict
from structir.solver.domains.terms import row_vars, symbol_of
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.default_selection import Close, default_params, require_names
from structir.solver.program.dense_parts import solve_dense_parts
from structir.solver.program.dtypes import complete_dtypes
from structir.solver.program.refine_policy import POLICIES, policy_of
from structir.solver.program.rewriter import Rewriter, count_entry_checks
from structir.solver.program.unsat_core import UnsatCore, explain
from structir.solver.program.value_trees import tensors

MAX_ROUNDS = 8  # one is enough for most programs, three for nearly all


def infer(module: IRModule, *, refine: str | None = None, close: Close = False) -> IRModule:
    """Returns the module with every StructInfo completed from annotations, operands and results.

    `refine` states what may change where the body narrows a named size of a signature. With
    `signature` the parameters and the result state the inferred StructInfo; `checks` keeps the
    signature and adds a check on entry; with `nothing` a narrowed signature is a StructInfoError.
    The default is the function's `R.function(refine=...)`, else `signature`.
    `close` gives underconstrained parameters the least shape that their uses allow; a collection of
    names of parameters, dims and row variables (`"*s"`) restricts it to these. Raises Unsatisfiable
    with a minimal set of conflicting source lines if no shapes satisfy the program.
    """
    if refine is not None and refine not in POLICIES:
        raise StructIRError(f"refine: expected one of {', '.join(POLICIES)}, found {refine!r}")
    module = as_module(module, "structir.infer")
    require_close_names(module, close)
    completed = _infer(module, refine, close)
    if any(
        isinstance(f, Function) and _mentions_unbound_dim(f) for f in completed.functions.values()
    ):
        check_well_formed(completed)
    return completed


def _mentions_unbound_dim(function: Function) -> bool:
    """Returns whether a parameter mentions a dim that no parameter has as an axis of its own."""
    infos = [param.struct_info for param in function.params]
    mentioned = {symbol for info in infos for symbol in free_symbols_in(info)}
    return not mentioned <= bound_dims(infos)


def _infer(module: IRModule, refine: str | None, close: Close) -> IRModule:
    """Returns the module with completed dtypes and shapes."""
    completed = _complete_module(module, refine, close)
    if _is_consistent(completed):
        return completed
    # facts of dead code may contradict the rest of the function: keep the signatures, then dtypes
    for dtypes in (True, False):
        completed = _complete_module(module, "checks", close, dtypes)
        if _is_consistent(completed):
            again = _complete_module(completed, refine, close)  # from what is known then
            return again if _is_consistent(again) else completed
    return module  # a branch that fails in every run may contradict the results of callees


def _is_consistent(module: IRModule) -> bool:
    """Returns whether a completed module is well formed, and its functions accept all calls.

    Others cannot result where all code runs.
    """
    functions = _functions(module)
    has_inner_scopes = any(map(_has_inner_scopes, functions))
    if has_inner_scopes and not well_formed(module):
        return False
    return len(functions) < 2 or _accepts_calls(module)


def _accepts_calls(module: IRModule) -> bool:
    """Returns whether the functions of a module accept the arguments of all calls."""
    accepted: set[tuple[str, tuple[Any, ...]]] = set()  # calls with equal arguments are frequent
    for call in walk_values(module):
        if type(call) is not Call or type(call.op) is not GlobalVar:
            continue
        infos = tuple([arg.struct_info for arg in call.args])
        callee, key = module[call.op.name], (call.op.name, infos)
        if key in accepted or not isinstance(callee, Function):
            continue
        if not accepts_arguments(callee.struct_info, infos):
            return False
        accepted.add(key)
    return True


def _functions(module: IRModule) -> list[Function]:
    return [f for f in module.functions.values() if isinstance(f, Function)]


def _has_inner_scopes(function: Function) -> bool:
    """Returns whether a function has branches or closures, which need not run."""
    return any(isinstance(b.value, If | Function) for b in function.bindings())


def _complete_module(
    module: IRModule, refine: str | None, close: Close, dtypes: bool = True
) -> IRModule:
    """Returns the completed module: a fixed point, which another round would not change."""
    for _ in range(MAX_ROUNDS):
        previous = module
        if dtypes:
            module = complete_dtypes(module, _passed_functions(module))
        module, may_infer_more = _complete_once(module, refine, close)
        if not may_infer_more or structural_equal(module, previous):
            break
    return module


def _complete_once(module: IRModule, refine: str | None, close: Close) -> tuple[IRModule, bool]:
    """Returns the completed module, and whether another round may infer more."""
    generators = generate_constraints(module, close=close)
    functions = dict(module.functions)
    globals_: dict[str, StructInfo] = {}
    may_infer_more = False
    fixed = _passed_functions(module)
    for name, generator in generators.items():
        if name in fixed:
            continue
        function = module[name]
        rewriter = Rewriter(generator, globals_, refine or policy_of(function))
        functions[name] = completed = rewriter.function(function)
        globals_[name] = completed.struct_info
        may_infer_more |= bool(close) or _has_inner_scopes(function)
        may_infer_more |= count_entry_checks(completed) > count_entry_checks(function)
        may_infer_more |= rewriter.has_deduced_more
        if _has_other_shapes(completed, function):
            may_infer_more |= _is_open(generator)
            may_infer_more |= bool(generator.solver.residual) and _has_more_ranks(
                completed, function
            )
    return module.with_functions(functions), may_infer_more


def _is_open(generator: ConstraintGenerator) -> bool:
    """Returns whether labels, or equations of ranks, remain: they have several solved forms."""
    equations = [c for c in generator.solver.residual if isinstance(c, RowEq)]
    return generator.labelled or any(row_vars(row) for c in equations for row in c.rows())


def _has_other_shapes(completed: Function, previous: Function) -> bool:
    """Returns whether a parameter states other axes in the completed form."""
    return any(axes_of(new) != axes_of(old) for new, old in _tensors_of_params(completed, previous))


def _has_more_ranks(completed: Function, previous: Function) -> bool:
    """Returns whether the rank of a tensor in a parameter is known only in the completed form."""
    pairs = _tensors_of_params(completed, previous)
    return any(new.ndim is not None and old.ndim is None for new, old in pairs)


def _tensors_of_params(
    completed: Function, previous: Function
) -> Iterator[tuple[TensorStructInfo, TensorStructInfo]]:
    """Yields the tensors of each parameter that changed, with those of its previous form."""
    for new, old in zip(completed.params, previous.params, strict=True):
        if new is not old:
            yield from zip(tensors(new.struct_info), tensors(old.struct_info), strict=True)


def _passed_functions(module: IRModule) -> set[str]:
    """Returns the functions that are values, and those that they call.

    They keep their signatures: with narrower parameters they would not have the type that the
    functions that receive them declare.
    """
    functions = _functions(module)
    if len(functions) < 2:
        return set()
    todo = [name for function in functions for name in _function_values(function)]
    calls, passed = _call_graph(module) if todo else {}, set[str]()
    while todo:
        name = todo.pop()
        if name in calls and name not in passed:
            passed.add(name)
            todo += calls[name]
    return passed


def _function_values(function: Function) -> Iterator[str]:
    """Yields the functions of the module that are arguments of calls, or bound to variables."""
    for node in walk_values(function):
        kind: Any = type(node)
        values: tuple[Any, ...] = ()
        if kind is Call and type(node.op) is not Op:
            values = node.args
        elif kind is VarBinding or kind is MatchCast:
            values = (node.value,)
        elif kind is Tuple:
            values = node.fields
        elif kind is SeqExpr:
            values = (node.body,)
        if GlobalVar in map(type, values):
            yield from [value.name for value in values if type(value) is GlobalVar]


def generate_constraints(
    module: IRModule, *, close: Close = False
) -> dict[str, ConstraintGenerator]:
    """Generates and solves the constraints of every function, callees before callers.

    Defaulting applies only to functions that no other calls: a helper serves the shapes of its
    callers.
    """
    generators: dict[str, ConstraintGenerator] = {}
    schemes: dict[str, Scheme] = {}
    bodies: dict[str, Function] = {}
    calls = _call_graph(module)
    labelled = any(_has_labels(module[name]) for name in calls)
    for name in _callees_first(calls):
        generators[name] = generator = solve_function(module[name], schemes, bodies, labelled)
        schemes[name] = generator.scheme()
        if generator.is_incomplete or _has_function_param(module[name]):
            bodies[name] = module[name]
    if close:
        called = {callee for callees in calls.values() for callee in callees}
        for name in [name for name in generators if name not in called]:
            default_params(module[name], generators[name], close)
    return generators


def require_close_names(module: IRModule, close: Close) -> None:
    """Raises DiagnosticError if `close` has a name of no parameter, dim or row variable."""
    if not isinstance(close, bool):
        generators = generate_constraints(module)
        require_names(close, [(module[name], each) for name, each in generators.items()])


def _has_function_param(function: Function) -> bool:
    return any(isinstance(param.struct_info, FuncStructInfo) for param in function.params)


@one_message()
def solve_function(
    function: Function,
    schemes: Mapping[str, Scheme],
    bodies: Mapping[str, Function],
    labelled: bool,
) -> ConstraintGenerator:
    """Generates and solves the constraints of one function.

    `bodies` are the callees whose scheme does not describe them completely; `labelled` states
    whether axes of the program have labels. Raises Unsatisfiable with an explanation if the
    constraints conflict.
    """
    least = 0 if _allows_zero_sizes(function) else 1
    try:
        return _generate(function, ConstraintGenerator(schemes, least, bodies, labelled))
    except _FunctionUnsatisfiable as first:
        core = explain(first.generator.solver, first.conflict)
        try:
            generator = _generate(function, ConstraintGenerator(schemes, 0, bodies, labelled))
        except _FunctionUnsatisfiable:
            raise Unsatisfiable(core) from None
        if not _has_zero_sizes(function):
            raise Unsatisfiable(core, _zero_sizes(function, generator)) from None
        return generator


def _has_labels(function: Function) -> bool:
    """Returns whether an axis of a parameter or of a variable has a label."""
    infos = [param.struct_info for param in function.params]
    infos += [binding.var.struct_info for binding in function.bindings()]
    axes = [axis for info in infos for part in tensors(info) for axis in part.axes or ()]
    return any(type(axis) is Labelled for axis in axes)


def _allows_zero_sizes(function: Function) -> bool:
    """Returns whether a function declares that a size is or may be 0."""
    checked = [b.struct_info for b in function.bindings() if isinstance(b, MatchCast)]
    declared = [p.struct_info for p in function.params] + checked
    if any(type(i.dims) is tuple and 0 in i.dims for info in declared for i in tensors(info)):
        return True
    return any(map(allows_zero, [f for b in function.bindings() for f in conditions_of(b)]))


def _has_zero_sizes(function: Function) -> bool:
    """Returns whether a value of a function has a literal size of 0."""
    infos = [binding.var.struct_info for binding in function.bindings()]
    infos += [function.ret_struct_info, *[param.struct_info for param in function.params]]
    return any(type(i.dims) is tuple and 0 in i.dims for info in infos for i in tensors(info))


def _zero_sizes(function: Function, generator: ConstraintGenerator) -> tuple[str, ...]:
    """Returns the names of the dims of the parameters that must be 0."""
    infos = [info for param in function.params for info in tensors(param.struct_info)]
    declared = dict.fromkeys([size for info in infos for size in info.dims or ()])
    names = {size: symbol_of(size) for size in declared if type(size) is not int}
    return tuple(
        [
            display_name(s)
            for size, s in names.items()
            if s and generator.solver.resolve((size,)) == (0,)
        ]
    )


class Unsatisfiable(StructInfoError):
    """No shapes satisfy a function; `explanation` is a minimal set of conflicting assertions.

    If sizes of 0 would satisfy it, `zero_sizes` are the names of those that must be 0.
    """

    def __init__(self, explanation: UnsatCore, zero_sizes: tuple[str, ...] | None = None) -> None:
        diagnostic = explanation.diagnostic()
        if zero_sizes is not None:
            diagnostic = _only_for_zero(diagnostic, zero_sizes)
        super().__init__(diagnostic)
        self.explanation = explanation


def _only_for_zero(diagnostic: Diagnostic, names: tuple[str, ...]) -> Diagnostic:
    """Returns the diagnostic of a program that only sizes of 0 satisfy."""
    which = ", ".join([f"`{name}`" for name in names]) or "a size"
    message = f"{diagnostic.message}, unless {which} is 0"
    hint = f'to allow 0, add `R.require("{names[0]} >= 0")`' if names else "annotate the size as 0"
    return attrs.evolve(diagnostic, message=message, hint=hint, code="E0410")


@attrs.frozen(eq=False)
class _FunctionUnsatisfiable(Exception):
    generator: ConstraintGenerator
    conflict: Conflict


def _generate(function: Function, generator: ConstraintGenerator) -> ConstraintGenerator:
    try:
        generator.visit(function)
        generator.solve()
        solve_dense_parts(generator)
        generator.name_open_sizes(function.params)
    except Conflict as conflict:
        raise _FunctionUnsatisfiable(generator, conflict) from None
    return generator


def _call_graph(module: IRModule) -> dict[str, list[str]]:
    """Returns the functions of a module that each function calls."""
    return {
        name: [
            node.name
            for node in walk_values(function)
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
