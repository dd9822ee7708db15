"""Selects the parameters and sizes that defaulting (`close`) decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from structir.analysis.axes import axes_of
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.axes import is_anonymous, size_in
from structir.ir.expr import Call, Function, Var
from structir.ir.polynomial import Poly, Sym
from structir.solver.domains.reasons import origins
from structir.solver.domains.terms import RowVar, Variable, row_vars, variables
from structir.solver.program import defaulting
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.value_trees import has_all_sizes, leaves, tensors
from structir.solver.solver import ConstraintSolver, Value

Close: TypeAlias = bool | Collection[str]  # names of what to default


def default_params(function: Function, generator: ConstraintGenerator, close: Close) -> None:
    """Chooses shapes for the parameters with incomplete annotations, or for these names.

    Sizes that the signature names stay open unless `close` or a condition with a lower bound
    selects them.
    """
    solver = generator.solver
    if isinstance(close, bool):
        named = _named_sizes(function)
        selected = {symbol for symbol in named if _has_declared_bound(solver, symbol)}
        params = [
            param
            for param in function.params
            if not has_all_sizes(param.struct_info) or selected & _named_sizes_of([param])
        ]
        keep: set[Variable] = {*(named - selected)}
    else:
        params = list(function.params)
        keep = _variables_except(function, generator, _names_in(close))
    values = [value for param in params for value in leaves(generator.trees[param])]
    values += [] if close is not True else _open_results(function, generator)
    fixed = () if isinstance(close, bool) else keep
    defaulting.close(solver, values, "unit", trial=generator, keep=keep, fixed=fixed)
    generator.undecided = {v.name for v in values if keep.isdisjoint(_open_variables(solver, [v]))}
    generator.undecided &= {v.name for v in values if _open_variables(solver, [v])}


def require_names(
    close: Collection[str], functions: Sequence[tuple[Function, ConstraintGenerator]]
) -> None:
    """Raises DiagnosticError for a name that is no parameter, dim or row variable of these
    functions."""
    known: set[str] = set()
    for function, generator in functions:
        opened: set[Variable] = set()
        for param in function.params:
            known.add(param.name)
            opened |= _open_variables(generator.solver, leaves(generator.trees[param]))
        known |= {_close_name(variable) for variable in {*opened, *_named_sizes(function)}}
    for name in sorted(_names_in(close) - known):
        names = ", ".join(f"`{n}`" for n in sorted(known) if not is_anonymous(n.lstrip("*")))
        message = f"close: expected a parameter, dim or row variable, found `{name}`"
        raise DiagnosticError(Diagnostic(message, hint=f"the names are: {names or 'none'}"))


def _names_in(close: Collection[str]) -> set[str]:
    return {close} if isinstance(close, str) else set(close)


def _close_name(variable: Variable) -> str:
    """Returns the name by which `close` selects a variable."""
    return f"*{variable.name}" if type(variable) is RowVar else variable.name


def _open_results(function: Function, generator: ConstraintGenerator) -> list[Value]:
    """Returns the results of ops whose operands need not determine their sizes."""
    trees = generator.trees
    return [
        value
        for binding in function.bindings()
        if isinstance(binding.value, Call)
        and "open_size" in getattr(getattr(binding.value.op, "definition", None), "hooks", ())
        and binding.var in trees
        for value in leaves(trees[binding.var])
    ]


def _variables_except(
    function: Function, generator: ConstraintGenerator, names: Collection[str]
) -> set[Variable]:
    """Returns the open variables of the parameters without those of these names."""
    every: set[Variable] = set()
    selected: set[Variable] = set()
    for param in function.params:
        opened = _open_variables(generator.solver, leaves(generator.trees[param]))
        every |= opened
        selected |= opened if param.name in names else set()
    selected |= {v for v in every if _close_name(v) in names}
    return every - selected


def _open_variables(solver: ConstraintSolver, values: Iterable[Value]) -> set[Variable]:
    """Returns the variables in the shapes of these values."""
    shapes = [solver.shape(value) for value in values]
    axes = [axis for shape in shapes for axis in shape]
    symbols = {s for axis in axes if type(axis) is not RowVar for s in variables(axis)}  # type: ignore[arg-type]
    return {*symbols, *row_vars(axes)}


def _named_sizes(function: Function) -> set[Sym]:
    """Returns the dims that the signature of a function names."""
    return _named_sizes_of(function.params)


def _named_sizes_of(params: Sequence[Var]) -> set[Sym]:
    infos = [info for param in params for info in tensors(param.struct_info)]
    axes = [size_in(axis) for info in infos for axis in axes_of(info) or ()]
    symbols = {s for size in axes if type(size) is Poly for s in variables(size)}
    return {symbol for symbol in symbols if not is_anonymous(symbol.name)}


def _has_declared_bound(solver: ConstraintSolver, symbol: Sym) -> bool:
    """Returns whether a condition of the program bounds a size from below."""
    reason = solver.store.bound_reasons.get(("low", symbol))
    return reason is not None and any(o.kind == "fact" for o in origins(reason))
