"""Public functions of a module, and internal ones, whose signatures passes may change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from structir.analysis.declaration import analysis
from structir.analysis.derivative_rules import rule_names, without_rules
from structir.analysis.donation import INITIAL_STATE
from structir.analysis.variables import walk_values
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.bodies import bindings_of, with_bindings
from structir.ir.expr import Binding, Call, Function, GlobalVar
from structir.ir.module import IRModule
from structir.ir.node import Node, replace

PRIVATE = "private"  # the attribute of a function that only its module calls


def only_function(module: IRModule, edit: str = 'exe["{name}"](...)') -> str:
    """Returns the name of the only public function of a module; raises DiagnosticError if there are
    several, or none, with a hint that names one as in `edit`.

    Functions that only initialize state are not counted.
    """
    functions = {n: f for n, f in module.functions.items() if isinstance(f, Function)}
    initial = {function.attrs.get(INITIAL_STATE) for function in functions.values()}
    names = [n for n, f in functions.items() if not f.attrs.get(PRIVATE) and n not in initial]
    if len(names) == 1:
        return names[0]
    listed = ", ".join(names) or "none"
    message = f"no function is named: expected one public function, found {listed}"
    named = f"name the function: `{edit.format(name=names[0])}`" if names else None
    raise DiagnosticError(Diagnostic(message, hint=named or "add a public function", code="E1002"))


def named_or_only_function(module: IRModule, name: str | None, edit: str) -> str:
    """Returns a name, or without one `main`, or that of the only public function of a module.

    Raises DiagnosticError for an unknown name, and where the name is missing, with a hint as in
    `edit`."""
    functions = module.functions
    if name is None:
        return "main" if "main" in functions else only_function(module, edit)
    if name in functions:
        return name
    listed = list(functions)
    near = get_close_matches(name, listed, 1) or listed[:1]
    hint = f"name an available one: `{edit.format(name=near[0])}`" if near else None
    message = f"no function `{name}` in module; available: {', '.join(listed) or 'none'}"
    raise DiagnosticError(Diagnostic(message, hint=hint, code="E1002"))


@analysis
def internal_functions(module: IRModule) -> dict[str, Function]:
    """Returns the private functions that are only called: not used as values or derivatives."""
    if not any(
        getattr(function, "attrs", {}).get(PRIVATE) for function in module.functions.values()
    ):
        return {}
    calls, uses = dict[str, int](), dict[str, int]()
    for function in module.functions.values():
        if not isinstance(function, Function):
            continue
        for item in walk_values(function):
            if isinstance(item, GlobalVar):
                uses[item.name] = uses.get(item.name, 0) + 1
        for binding in bindings_of(function):
            name = called_function(binding)
            if name is not None:
                calls[name] = calls.get(name, 0) + 1
    rules = {name for function in module.functions.values() for name in rule_names(function)}
    return {
        name: function
        for name, function in module.functions.items()
        if isinstance(function, Function)
        and function.attrs.get(PRIVATE)
        and name not in rules
        and not rule_names(function)
        and calls.get(name, 0) == uses.get(name, 0) > 0
    }


def called_function(binding: Binding) -> str | None:
    """Returns the name of the module's function that a binding calls, or None."""
    value = binding.value
    if isinstance(value, Call) and isinstance(value.op, GlobalVar):
        return value.op.name
    return None


def replace_functions(
    module: IRModule,
    changed: dict[str, Function],
    rewrite_call: Callable[[Binding, str], list[Binding]],
) -> IRModule:
    """Returns the module with some functions replaced.

    `rewrite_call` replaces each binding that calls one of them.
    """
    if not changed:
        return module
    functions: dict[str, Node] = {**module.functions, **changed}

    def rewrite(binding: Binding) -> list[Binding]:
        name = called_function(binding)
        return [binding] if name is None or name not in changed else rewrite_call(binding, name)

    for name, function in functions.items():
        if isinstance(function, Function):
            functions[name] = with_bindings(function, rewrite)
    return module.with_functions(functions)


def without_derivatives(module: IRModule) -> IRModule:
    """Returns the module without the private functions that only derivatives call, and without the
    attributes that name them: a program that is not differentiated any more."""
    functions = module.functions
    rules = [name for function in functions.values() for name in rule_names(function)]
    if not rules:
        return module
    public = [n for n, f in functions.items() if not getattr(f, "attrs", {}).get(PRIVATE)]
    unused = _reachable(module, rules) - _reachable(module, public)
    unused -= set(public)
    kept = {name: f for name, f in functions.items() if name not in unused}
    for name, function in kept.items():
        if not unused.isdisjoint(rule_names(function)):
            kept[name] = replace(function, attrs=without_rules(function.attrs))  # type: ignore[attr-defined]
    return module.with_functions(kept)


def _reachable(module: IRModule, names: Iterable[str]) -> set[str]:
    """Returns the functions that these functions call or pass, and themselves."""
    worklist, reached = list(names), set[str]()
    while worklist:
        name = worklist.pop()
        if name in module.functions and name not in reached:
            reached.add(name)
            values = walk_values(module.functions[name])
            worklist += [value.name for value in values if isinstance(value, GlobalVar)]
    return reached
