"""Schedules as text: `fuse(h, y); y.split(i, 8).parallel(i_0)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from structir.errors import Diagnostic, Source, Span
from structir.ir.module import IRModule
from structir.loops.handle import KernelHandle
from structir.loops.primitives import find_primitive
from structir.loops.schedule.refusal import ScheduleError
from structir.scheduling.schedule import Schedule

EXAMPLE = "`y.split(i, 8).parallel(i_0)`"


def scheduled(module: IRModule, text: str, function: str = "main") -> IRModule:
    """Returns the module with its ops lowered to kernels and these steps applied.

    A step is a method of a kernel, or `fuse`; `;` or a new line ends a chain of steps. A name
    without quotes is a string. Raises ScheduleError at the step that is invalid or refused.
    """
    chains = list(_chains(text))
    schedule = Schedule(module, function)
    for chain in chains:
        _apply(schedule, chain, Source("steps", text))
    result: IRModule = schedule.apply()
    return result


def _chains(text: str) -> Iterator[list[ast.Call]]:
    """Yields chains of calls, in the order of their application."""
    source = Source("steps", text)
    try:
        statements = ast.parse(text).body
    except SyntaxError as error:
        line, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
        span = Span(source, line, column, line, column + 1)
        raise _error(f"syntax error: {error.msg}", span) from None
    for statement in statements:
        calls: list[ast.Call] = []
        node: Any = statement.value if isinstance(statement, ast.Expr) else statement
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            calls.append(node)
            node = node.func.value
        is_name = isinstance(node, ast.Name) and calls
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.append(node)
        elif not is_name:
            raise _error(f"expected a step such as {EXAMPLE}", _span(source, node))
        yield calls[::-1]


def _apply(schedule: Schedule, chain: Sequence[ast.Call], source: Source) -> None:
    handle: KernelHandle | None = None
    for call in chain:
        arguments = [_value(arg, source) for arg in call.args]
        options = {str(k.arg): _value(k.value, source) for k in call.keywords}
        try:
            if isinstance(call.func, ast.Name):
                handle = _fused(schedule, call.func, arguments, options)
                continue
            assert isinstance(call.func, ast.Attribute)
            if handle is None:
                assert isinstance(call.func.value, ast.Name)
                handle = schedule.kernel(call.func.value.id)
            name = call.func.attr
            getattr(handle, name if name == "recipe" else _primitive(name))(*arguments, **options)
        except ScheduleError as error:
            raise ScheduleError([_at(d, _span(source, call)) for d in error.diagnostics]) from None


def _at(diagnostic: Diagnostic, step: Span) -> Diagnostic:
    """Returns a diagnostic with the location of the step, besides that in a kernel."""
    if diagnostic.span is None:
        return diagnostic.at(step)
    return diagnostic.note("in this step", step)


def _fused(
    schedule: Schedule, function: ast.Name, arguments: Sequence[Any], options: dict[str, Any]
) -> KernelHandle:
    if function.id != "fuse" or len(arguments) != 2 or options.keys() - {"loops"}:
        message = f"expected `fuse(first, second, loops=1)` or a step such as {EXAMPLE}"
        raise ScheduleError(Diagnostic(message, code="E1125", hint="name a kernel, then its steps"))
    return schedule.fuse(*arguments, **options)


def _primitive(name: str) -> str:
    find_primitive(name)
    return name


def _value(node: ast.expr, source: Source) -> Any:
    """Returns the value of an argument: a literal, or the name itself."""
    if isinstance(node, ast.Name):
        return node.id
    try:
        return ast.literal_eval(node)
    except ValueError:
        message = "expected a name or a literal as argument"
        raise _error(message, _span(source, node)) from None


def _span(source: Source, node: Any) -> Span:
    return Span(source, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


def _error(message: str, span: Span) -> ScheduleError:
    hint = f"write steps such as {EXAMPLE}, separated by `;`"
    return ScheduleError(Diagnostic(message, span, "schedule", code="E1125", hint=hint))
