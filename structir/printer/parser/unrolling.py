"""Unrolls loops and comprehensions over values of Python, and resolves `if` over them.

An item is an expression of the program, a PythonValue, or a tuple of items.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from structir.analysis.deduction import deduce
from structir.ir.expr import Expr, Tuple, TupleGetItem
from structir.ir.struct_info import Names, TupleStructInfo
from structir.printer.parser.captured import dict_views, is_dict, is_sequence, items_of
from structir.printer.parser.context import MISSING, AlreadyReported, Context, PythonValue
from structir.printer.parser.static_values import (
    BUILTINS,
    LANGUAGE,
    STATIC_RULES,
    is_builtin,
    static_test,
    static_value,
)
from structir.printer.parser.values import argument, path_of, reads, unsupported, value_of

MAX_UNROLLED = 1 << 18  # nodes of syntax that unrolled loops and expanded macros have in all
IN_LOOP = "leave an unrolled loop under a condition over values of Python: `if i == 2: break`"
EXIT_HINTS: dict[type, str] = {
    ast.Break: IN_LOOP,
    ast.Continue: IN_LOOP.replace("break", "continue"),
    ast.Return: "`return` only in the last statement; a branch of `if` binds its value to a name",
}
LOOP_EXITS: frozenset[type] = frozenset({ast.Break, ast.Continue})
ReadStatements = Callable[[Context, list[ast.stmt]], None]
LOOP_HINT = "loop over `range(3)` or a captured tuple; over an axis of a tensor, use `R.scan`"


class Expansion:
    """Counts the nodes of syntax that loops and macros add to a text."""

    def __init__(self) -> None:
        self.size = 0

    def add(self, context: Context, node: ast.AST, size: int) -> None:
        """Adds the nodes of one iteration or call; raises ParseError beyond the limit."""
        self.size += size
        if self.size > MAX_UNROLLED:
            message = f"loops and macros expand to more than {MAX_UNROLLED} nodes of syntax"
            hint = "use fewer iterations, or `R.scan` for a loop over an axis of a tensor"
            raise context.error(node, message, hint, "E0109")


def size_of_syntax(nodes: list[Any]) -> int:
    """Returns the number of nodes of syntax."""
    return sum([1 for node in nodes for _ in ast.walk(node)])


# ---- items


def items(context: Context, node: ast.expr) -> Iterator[Any] | None:
    """Returns the items of an iterable that is known at parse time; None for any other."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return comprehension(context, node)
    if isinstance(node, ast.Call):
        return _items_of_call(context, node)
    value = static_value(context, node)
    if value is not MISSING:
        return _items_of_value(value)
    if isinstance(node, ast.Tuple | ast.List):
        return iter(display(context, node.elts))
    return _fields(context, node)


def _items_of_value(value: Any) -> Iterator[Any] | None:
    if is_sequence(value) or is_dict(value):
        stored = items_of(value) if is_sequence(value) else dict.keys(value)
        return map(PythonValue, stored)
    return None


def _fields(context: Context, node: ast.expr) -> Iterator[Any] | None:
    """Returns the fields of a tuple of the program."""
    value = argument(context, node)
    if type(value) is tuple:
        return iter(value)
    info = deduce(value) if isinstance(value, Expr) else None
    if not isinstance(info, TupleStructInfo):
        return None
    if isinstance(value, Tuple):
        return iter(value.fields)
    span, fields = context.source_map.span(node), info.fields
    return (TupleGetItem(value, k, field, span) for k, field in enumerate(fields))


def _items_of_call(context: Context, node: ast.Call) -> Iterator[Any] | None:
    func = node.func
    if isinstance(func, ast.Name) and func.id in ITERABLES and is_builtin(context, func):
        return ITERABLES[func.id](context, node)
    if isinstance(func, ast.Attribute) and func.attr in ("items", "keys", "values"):
        base = static_value(context, func.value)
        if base is not MISSING and is_dict(base) and not node.args and not node.keywords:
            return map(_item, dict_views(base, func.attr))
    return _fields(context, node)


def _item(value: Any) -> Any:
    return tuple(map(PythonValue, value)) if type(value) is tuple else PythonValue(value)


def _range(context: Context, node: ast.Call) -> Iterator[Any] | None:
    bounds = [static_value(context, item) for item in node.args]
    if not 1 <= len(bounds) <= 3 or node.keywords or not all(type(b) is int for b in bounds):
        return None
    return map(PythonValue, range(*bounds)) if bounds[2:] != [0] else None


def _enumerate(context: Context, node: ast.Call) -> Iterator[Any] | None:
    ends = [*node.args[1:], *[k.value for k in node.keywords if k.arg == "start"]]
    start = static_value(context, ends[0]) if ends else 0
    inner = items(context, node.args[0]) if node.args and len(ends) <= 1 else None
    if inner is None or type(start) is not int:
        return None
    return ((PythonValue(k), item) for k, item in enumerate(inner, start))


def _zip(context: Context, node: ast.Call) -> Iterator[Any] | None:
    parts = [items(context, item) for item in node.args]
    named = [k.value for k in node.keywords if k.arg == "strict"]
    strict = static_value(context, named[0]) if named else False
    if None in parts or len(named) != len(node.keywords) or type(strict) is not bool:
        return None
    return _zipped(context, node, [part for part in parts if part is not None], strict)


def _zipped(
    context: Context, node: ast.Call, parts: list[Iterator[Any]], strict: bool
) -> Iterator[Any]:
    try:
        yield from zip(*parts, strict=strict)
    except ValueError:
        message = f"{ast.unparse(node)}: expected iterables of one length, found different ones"
        hint = "remove `strict=True`, or give every iterable as many items"
        raise context.error(node, message, hint, "E0107") from None


def _reversed(context: Context, node: ast.Call) -> Iterator[Any] | None:
    inner = items(context, node.args[0]) if len(node.args) == 1 and not node.keywords else None
    return None if inner is None else iter(list(_counted(context, node, inner, 1))[::-1])


ITERABLES: dict[str, Callable[[Context, ast.Call], Iterator[Any] | None]] = {
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "reversed": _reversed,
    "list": lambda context, node: items(context, node.args[0]) if len(node.args) == 1 else None,
    "tuple": lambda context, node: items(context, node.args[0]) if len(node.args) == 1 else None,
}


def _counted(context: Context, node: ast.AST, iterator: Iterator[Any], size: int) -> Iterator[Any]:
    for item in iterator:
        context.module.expansion.add(context, node, size)
        yield item


# ---- loops


class Exit(Exception):
    """Control leaves a loop or a function: `break`, `continue` or `return`."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node


def leave(context: Context, node: ast.stmt) -> None:
    """Parses `break`, `continue` or `return`."""
    if type(node) not in context.exits:
        raise unsupported(context, node, EXIT_HINTS[type(node)])
    raise Exit(node)


@contextmanager
def allowing_exits(context: Context, exits: frozenset[type]) -> Iterator[None]:
    """Allows the statements of these classes to leave the loop or function that is parsed."""
    outside, context.exits = context.exits, exits
    try:
        yield
    finally:
        context.exits = outside


def unroll(context: Context, node: ast.For, read: ReadStatements) -> None:
    """Parses the statements of a loop once per item; its `else` unless `break` ends it."""
    try:
        with allowing_exits(context, context.exits | LOOP_EXITS):
            _unroll(context, node, read)
    except Exit as left:
        if not isinstance(left.node, ast.Break):
            raise
    else:
        read(context, node.orelse)


def _unroll(context: Context, node: ast.For, read: ReadStatements) -> None:
    iterator = items(context, node.iter)
    if iterator is None:
        raise unsupported(context, node, LOOP_HINT)
    size, count = 1 + size_of_syntax(node.body), len(context.errors)
    for item in _counted(context, node, iterator, size):
        assign(context, node.target, item)
        try:
            read(context, node.body)
        except Exit as left:
            if not isinstance(left.node, ast.Continue):
                raise
        if len(context.errors) > count:  # the next iterations have the same
            raise AlreadyReported


def assign(context: Context, target: ast.expr, item: Any) -> None:
    """Binds a name, or nested names, to an item."""
    if isinstance(target, ast.Name):
        value = _whole(context, item, target)
        if isinstance(value, Expr) and context.outputs and target.id in context.outputs:
            value = context.emit(value, target.id, target)
        context.define(target.id, value)
        return
    if not isinstance(target, ast.Tuple | ast.List):
        message = f"expected names as the target of a loop, found {ast.unparse(target)}"
        raise context.error(target, message, "write names: `for i, w in ...:`", "E0116")
    fields = _fields_of_item(context, target, item)
    if fields is None or len(fields) != len(target.elts):
        count = "a single value" if fields is None else f"{len(fields)} values"
        message = f"cannot unpack {count} into {len(target.elts)} names"
        hint = f"name every item: `{', '.join(f'v{k}' for k in range(len(fields or ())))}`"
        hint = hint if fields else "write one name as the target: `for w in ...:`"
        raise context.error(target, message, hint, "E0116")
    for part, field in zip(target.elts, fields, strict=True):
        assign(context, part, field)


def _whole(context: Context, item: Any, node: ast.expr) -> Any:
    """Returns an item as one value: a tuple of values of Python is one itself."""
    if type(item) is not tuple:
        return context.atom(item, node)
    fields = [_whole(context, field, node) for field in item]
    if all([type(field) is PythonValue for field in fields]):
        return PythonValue(tuple([field.value for field in fields]))
    return tuple([program_item(context, field, node) for field in fields])


def _fields_of_item(context: Context, target: ast.expr, item: Any) -> Any:
    if type(item) is tuple:
        return item
    if type(item) is PythonValue:
        return [*map(PythonValue, items_of(item.value))] if is_sequence(item.value) else None
    atom = context.atom(item, target)
    info = deduce(atom) if isinstance(atom, Expr) else None
    if not isinstance(info, TupleStructInfo):
        return None
    span = context.source_map.span(target)
    return [TupleGetItem(atom, k, field, span) for k, field in enumerate(info.fields)]


# ---- expressions


def comprehension(context: Context, node: ast.ListComp | ast.GeneratorExp) -> Iterator[Any]:
    """Returns the items of a comprehension; its variables are not visible after it."""
    names = [n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)]
    mark = context.mark()
    try:
        return iter([*_elements(context, node, node.generators, 1 + size_of_syntax([node.elt]))])
    finally:
        context.restore(mark, names)


def _elements(
    context: Context, node: Any, generators: list[ast.comprehension], size: int
) -> Iterator[Any]:
    if not generators:
        yield item_of_program(context, node.elt)
        return
    first, *inner = generators
    iterator = items(context, first.iter)
    if iterator is None or first.is_async:
        raise unsupported(context, node, LOOP_HINT)
    for item in _counted(context, node, iterator, size):
        assign(context, first.target, item)
        if all([_holds(context, condition) for condition in first.ifs]):
            yield from _elements(context, node, inner, size)


def _holds(context: Context, node: ast.expr) -> bool:
    holds = static_test(context, node)
    if holds is MISSING:
        message = f"expected a condition over values of Python, found {ast.unparse(node)}"
        raise context.error(node, message, "compare captured values: `if i > 0`", "E0107")
    return bool(holds)


def item_of_program(context: Context, node: ast.expr) -> Any:
    """Returns an expression as an item: a static one keeps its value of Python."""
    value = static_value(context, node)
    return argument(context, node) if value is MISSING else PythonValue(value)


def display(context: Context, nodes: list[ast.expr]) -> list[Any]:
    """Returns the values of a tuple, list or call; `*x` is replaced by the items of `x`."""
    result: list[Any] = []
    for node in nodes:
        if type(node) is ast.Starred:
            result += [program_item(context, item, node) for item in starred(context, node)]
        else:
            result.append(argument(context, node))
    return result


def starred(context: Context, node: ast.Starred) -> Iterator[Any]:
    """Returns the items that `*x` stands for."""
    inner = items(context, node.value)
    if inner is None:
        raise unsupported(context, node)
    return _counted(context, node, inner, 1)


def named(context: Context, node: ast.keyword) -> Iterator[tuple[str, Any]]:
    """Returns the names and items of `name=value`, and of `**x` for a dict of Python or a tuple of
    the program with named fields."""
    if node.arg is not None:
        return iter([(node.arg, item_of_program(context, node.value))])
    value = static_value(context, node.value)
    if value is MISSING:
        whole = argument(context, node.value)
        info = deduce(whole) if isinstance(whole, Expr) else None
        names: Names | None = getattr(info, "names", None)
        if names is not None:
            return zip(names, [whole[name] for name in names], strict=True)
    if not is_dict(value) or not all([type(key) is str for key in dict.keys(value)]):
        raise unsupported(context, node, "write the arguments one by one")
    return ((name, PythonValue(item)) for name, item in dict.items(value))


def program_item(context: Context, item: Any, node: ast.expr) -> Any:
    """Returns an item as a value of the program; raises ParseError if it has no counterpart."""
    if type(item) is tuple:
        return tuple([program_item(context, field, node) for field in item])
    if type(item) is not PythonValue:
        return context.atom(item, node) if isinstance(item, Expr) else item
    value = context.module.program_value(context, item.value, node)
    if value is MISSING:
        raise context.python_value_error(node, ast.unparse(node), item.value)
    return value


@reads(ast.ListComp, ast.GeneratorExp)
def _comprehension(context: Context, node: ast.ListComp | ast.GeneratorExp) -> Any:
    with context.nested(node):
        return tuple(
            [program_item(context, item, node.elt) for item in comprehension(context, node)]
        )


def _static_comprehension(context: Context, node: ast.ListComp) -> Any:
    """Evaluates a comprehension without values of the program."""
    bound = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in bound]
    if not all([_is_static(context, name) for name in names]):
        return MISSING
    values = list(comprehension(context, node))
    static = all([type(value) is PythonValue for value in values])
    return [value.value for value in values] if static else MISSING


def _is_static(context: Context, node: ast.Name) -> bool:
    is_function = (node.id in ITERABLES or node.id in BUILTINS) and is_builtin(context, node)
    return is_function or (node.id not in LANGUAGE and static_value(context, node) is not MISSING)


STATIC_RULES[ast.ListComp] = _static_comprehension


def sequence(context: Context, node: ast.Call) -> Any:
    """Returns the items of `tuple(...)`, `reversed(...)` or `range(...)` as a tuple, or MISSING."""
    if not isinstance(node.func, ast.Name) or node.func.id not in ITERABLES:
        return MISSING
    iterator = items(context, node) if is_builtin(context, node.func) else None
    if iterator is None:
        return MISSING
    return tuple([program_item(context, i, node) for i in _counted(context, node, iterator, 1)])


@reads(ast.IfExp)
def _conditional(context: Context, node: ast.IfExp) -> Any:
    holds = static_test(context, node.test)
    if isinstance(node.test, ast.Constant):
        holds = bool(node.test.value)
    if holds is MISSING:
        raise unsupported(context, node)
    return value_of(context, node.body if holds else node.orelse)


@reads(ast.BoolOp, ast.JoinedStr)
def _static(context: Context, node: ast.expr) -> Any:
    value = context.captured(node)
    if value is MISSING:
        raise unsupported(context, node)
    return value


def alias_of(context: Context, node: ast.expr) -> PythonValue | None:
    """Returns the value of Python that an assignment gives another name; None for any other.

    The name of an op is no value, and `()` is a value of the program.
    """
    if type(node) is ast.Tuple and not node.elts:
        return None
    if type(node) is ast.Call and type(node.func) is ast.Attribute and node.func.attr != "get":
        return None
    if (path_of(node) or "").startswith("R."):
        return None
    value = static_value(context, node)
    return None if value is MISSING else PythonValue(value)
