"""Reports named sizes of parameters that the body determines: a program for one size only."""

from __future__ import annotations

from collections.abc import Iterator

from structir.analysis.axes import axes_of
from structir.errors import Diagnostic
from structir.ir.axes import size_in
from structir.ir.dims import as_dim
from structir.ir.expr import Function, Var
from structir.ir.module import IRModule
from structir.ir.polynomial import Poly
from structir.solver.domains.reasons import Origin
from structir.solver.domains.terms import symbol_of
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.inference import generate_constraints
from structir.solver.program.value_trees import tensors

DECLARATIONS = ("fact", "annotation")  # `R.require`, `match_cast` and annotations state a size


def single_sizes(module: IRModule) -> list[Diagnostic]:
    """Returns a diagnostic for each named size of a parameter that can have one value only.

    It has the locations of the parameter and of what determines the size. Raises Unsatisfiable
    where no sizes satisfy a function.
    """
    generators = generate_constraints(module)
    pairs = [(module[name], generator) for name, generator in generators.items()]
    return [d for function, generator in pairs for d in _of_function(function, generator)]


def _of_function(function: Function, generator: ConstraintGenerator) -> Iterator[Diagnostic]:
    reported = set()
    for param in function.params:
        sizes = [size_in(a) for info in tensors(param.struct_info) for a in axes_of(info) or ()]
        for size in sizes:
            symbol = symbol_of(size) if type(size) is Poly else None
            if symbol is None or symbol in reported:
                continue
            (value,) = generator.solver.resolve((as_dim(symbol),))
            causes = generator.solver.explain((as_dim(symbol),))
            if type(value) is int and not any(o.kind in DECLARATIONS for o in causes):
                reported.add(symbol)
                yield _diagnostic(param, symbol.name, value, causes)


def _diagnostic(param: Var, name: str, value: int, causes: list[Origin]) -> Diagnostic:
    message = f"expected a program for every size `{name}`, found one for {name} = {value} only"
    hint = f'declare the size: `R.require("{name} == {value}")`, or annotate the axis with {value}'
    diagnostic = Diagnostic(message, param.span, hint=hint, code="E0411")
    for origin in causes:
        if origin.span is None or origin.kind == "parameter":
            continue
        diagnostic = diagnostic.note(origin.text or origin.label, origin.span)
    return diagnostic
