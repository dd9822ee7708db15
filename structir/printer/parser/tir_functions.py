"""Translates `@T.prim_func` of TVM to the syntax of `@I.kernel`, in the common form.

The common form has buffers, loops (`T.grid`, `T.serial`, `T.parallel`, ...), blocks with spatial
and reduction axes, `T.init`, `T.where`, and scalar expressions. Loops run in order: a schedule
(threads, vectors, unrolling) has no effect on the result. Operands come first, then scalar
parameters, then the buffers that the function writes.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.ir.dtype import DTYPES, dtype_hint, is_float
from structir.ir.kernel import computed_in
from structir.printer.parser.context import Context
from structir.printer.parser.tir_captured import located, with_captured
from structir.printer.parser.tir_inplace import copying_loops, inplace_call, positions_of
from structir.printer.parser.tir_scalars import (
    ScalarTranslation,
    TooLargeError,
    UnknownDtypeError,
)
from structir.printer.parser.values import path_of
from structir.printer.syntax import KERNEL, TIR_FUNCTION

LOOPS = frozenset({"serial", "parallel", "vectorized", "unroll", "thread_binding"})
BLOCKS = frozenset({"block", "sblock"})
ALLOCATIONS = frozenset(
    {
        *("alloc_buffer", "sblock_alloc_buffer", "alloc_tensor", "alloc_local", "alloc_shared"),
        "decl_buffer",
    }
)
IGNORED = frozenset(
    {
        *("reads", "writes", "func_attr", "evaluate", "block_attr", "sblock_attr", "attr"),
        "preflattened_buffer",
    }
)
SPATIAL, REDUCTION = "S", "R"
DIM_FUNCTIONS = frozenset({"Var", "SizeVar", "var", "dynamic"})  # `n = T.Var("n", "int64")`
AXES = {
    **{"spatial": SPATIAL, "reduce": REDUCTION, "S": SPATIAL, "R": REDUCTION},
    **{"opaque": SPATIAL, "scan": SPATIAL},  # loops run in order
}


def is_tir_function(node: ast.stmt) -> bool:
    """Whether a statement is a function decorated with @T.prim_func."""
    if not isinstance(node, ast.FunctionDef):
        return False
    decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(path_of(d) == f"T.{TIR_FUNCTION}" for d in decorators)


def kernel_syntax(context: Context, node: ast.FunctionDef) -> ast.FunctionDef:
    """Returns a function of TVM in the syntax of a kernel; raises ParseError for other forms."""
    return _Translation(context, node).kernel()


@attrs.frozen
class _Start:
    """Statements that run before the first step of reduction loops."""

    statements: tuple[ast.stmt, ...]
    steps: Mapping[str, ast.expr]  # the first value of each reduction loop
    tests: tuple[ast.expr, ...] = ()  # of axes whose loops are also those of spatial axes


Item = ast.stmt | _Start


class _Translation:
    """The translation of one function."""

    def __init__(self, context: Context, node: ast.FunctionDef) -> None:
        self.context, self.node = context, with_captured(context, node)
        self.buffers: dict[str, ast.expr] = {}  # annotations by name
        self.handles = {a.arg: a.arg for a in node.args.args}  # the buffer of each parameter
        self.elements: dict[str, ast.expr] = {}  # of buffers with one element
        self.axes: dict[str, ast.expr] = {}  # the value of each axis of a block
        self.loops: dict[str, ast.expr] = {}  # the first value of each enclosing loop
        self.dims: list[ast.stmt] = []

    def kernel(self) -> ast.FunctionDef:
        """Returns the kernel."""
        for item in self.node.args.args:
            item.annotation = _as_call(item.annotation)
            if _called(item.annotation, "Buffer"):
                self.declare(item.arg, self.tensor(item.annotation))
        body = self.finished(self.block(self.node.body))
        written = set(_written(body))
        params = [self.parameter(item) for item in self.node.args.args]
        scalars = [p for p in params if p.arg not in self.buffers]
        results = [p for p in params if p.arg in written]
        operands = {p.arg: p for p in params if p.arg in self.buffers and p.arg not in written}
        for param in self.overwritten(params):
            operands[param.arg] = ast.arg(f"{param.arg}_before", param.annotation)
            loops = copying_loops(param.arg, operands[param.arg].arg, param.annotation)
            body = [*located(ast.Module(loops, []), self.node).body, *body]
        read = [operands[p.arg] for p in params if p.arg in operands]
        args = ast.arguments([], [*read, *scalars, *results], None, [], [], None, [])
        body = [*self.dims, *body] or [ast.Pass()]
        decorator = ast.parse(f"I.{KERNEL}", mode="eval").body
        kernel = ast.FunctionDef(self.node.name, args, body, [decorator])
        return located(kernel, self.node)  # type: ignore[no-any-return]

    def wrong(self, node: ast.AST, message: str, hint: str) -> Exception:
        """Returns the error of a form that has no counterpart in kernels."""
        return self.context.error(node, f"{self.node.name}: {message}", hint, "E0136")

    def overwritten(self, params: list[ast.arg]) -> list[ast.arg]:
        """Returns the parameters that are operands and results of calls in place."""
        module = self.context.module
        call = None if module is None else inplace_call(module.statements, self.node.name)
        if call is None:
            return []
        positions = positions_of(call)
        if positions is None or not all([0 <= k < len(params) for k in positions]):
            message = f"expected positions of operands in order, found `{ast.unparse(call)}`"
            raise self.wrong(call, message, "`inplace_indices=[0, -1]`, with new results last")
        return [params[k] for k in positions]

    # ---- parameters

    def parameter(self, item: ast.arg) -> ast.arg:
        """Returns a parameter of the kernel: a tensor, or a scalar."""
        name = self.handles[item.arg]
        if name in self.buffers:
            return ast.copy_location(ast.arg(name, self.buffers[name]), item)
        dtype = (path_of(item.annotation) or "").removeprefix("T.") if item.annotation else ""
        if dtype not in DTYPES:
            text = "nothing" if item.annotation is None else ast.unparse(item.annotation)
            message = f"parameter `{item.arg}`: expected a buffer or a scalar, found {text}"
            raise self.wrong(item, message, f'`{item.arg}: T.Buffer((n,), "float32")`')
        text = f"R.Prim({dtype!r})"
        if not is_float(dtype):
            if name in self.sizes():
                self.dims.append(located(ast.parse(f"{name} = T.int64()").body[0], item))
            name, text = f"{name}_value", f"R.Prim('int64', value={name!r})"
        return ast.copy_location(ast.arg(name, ast.parse(text, mode="eval").body), item)

    def tensor(self, node: Any, skipped: int = 0) -> ast.expr:
        """Returns `T.Buffer(shape, dtype)` or a similar call as `R.Tensor(shape, dtype)`."""
        named = {k.arg: k.value for k in node.keywords}
        items = [*node.args[skipped:]]
        shape = items[0] if items else named.get("shape")
        dtype = items[1] if len(items) > 1 else named.get("dtype", ast.Constant("float32"))
        if shape is None:
            raise self.wrong(node, "expected the shape of a buffer", '`T.Buffer((n,), "float32")`')
        sizes = shape.elts if isinstance(shape, ast.Tuple | ast.List) else [shape]
        plain = ast.Tuple([self.value(size, of_sizes=True) for size in sizes], ast.Load())
        function = ast.parse("R.Tensor", mode="eval").body
        tensor: ast.expr = located(ast.Call(function, [plain, dtype], []), node)
        return tensor

    def declare(self, name: str, annotation: ast.expr) -> None:
        """Records the annotation of a buffer that is a parameter."""
        self.buffers[name] = annotation
        self.add_element(name, annotation)

    def add_element(self, name: str, annotation: Any) -> None:
        """Records the element of a buffer with one, which TVM prints as `B` instead of `B[0]`."""
        sizes = annotation.args[0].elts
        if all([isinstance(size, ast.Constant) and size.value == 1 for size in sizes]):
            zeros: list[ast.expr] = [ast.Constant(0) for _ in sizes]
            index = zeros[0] if len(zeros) == 1 else ast.Tuple(zeros, ast.Load())
            self.elements[name] = ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load())

    # ---- statements

    def block(self, nodes: Sequence[ast.stmt]) -> list[Item]:
        """Translates statements in order."""
        items: list[Item] = []
        for k, node in enumerate(nodes):
            condition = _argument(node, "where")
            if condition is not None:
                rest = self.finished(self.block(nodes[k + 1 :]))
                items.append(located(ast.If(self.value(condition), rest, []), node))
                break
            items += self.statement(node)
        return items

    def finished(self, items: Sequence[Item]) -> list[ast.stmt]:
        """Returns the statements of a loop body; starts become branches on the first step."""
        statements: list[ast.stmt] = []
        for item in items:
            if isinstance(item, ast.stmt):
                statements.append(item)
            elif not item.steps and not item.tests:
                statements += item.statements
            else:
                tests = [_equals(ast.Name(n, ast.Load()), v) for n, v in item.steps.items()]
                tests += item.tests
                test: ast.expr = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
                statements.append(located(ast.If(test, list(item.statements), []), self.node))
        return statements

    def statement(self, node: ast.stmt) -> list[Item]:
        """Translates one statement."""
        match node:
            case ast.For():
                return self.loop(node)
            case ast.With(
                items=[
                    ast.withitem(context_expr=ast.Call() as call, optional_vars=ast.Name() as name)
                ]
            ):
                return self.with_name(node, call, name)
            case ast.With(items=[ast.withitem(context_expr=ast.Call() as call)]):
                return self.with_block(node, call)
            case ast.Assign(targets=[target], value=value):
                return self.assignment(node, target, value)
            case ast.AnnAssign(target=ast.Name(), annotation=kind, value=value):
                return self.declaration(node, path_of(kind) or "", value)
            case ast.AugAssign(target=target, op=operator, value=value):
                source = ast.parse(ast.unparse(target), mode="eval").body
                return self.assignment(node, target, ast.BinOp(source, operator, value))
            case ast.If():
                then, other = (self.finished(self.block(b)) for b in (node.body, node.orelse))
                return [located(ast.If(self.value(node.test), then, other), node)]
            case ast.While():
                body = self.finished(self.block(node.body))
                return [located(ast.While(self.value(node.test), body, []), node)]
            case ast.Expr(value=ast.Call(func=func)) if _is_ignored(func):
                return []
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return []
        text = ast.unparse(node).splitlines()[0]
        hint = "write the loops under `@I.kernel`: assignments, `for i in range(n)`, `if`, `while`"
        raise self.wrong(node, f"no counterpart in kernels: `{text}`", hint)

    def loop(self, node: ast.For) -> list[Item]:
        """Translates a loop over `range`, `T.grid`, or one of TVM's kinds of loops."""
        call: Any = node.iter
        kind = (path_of(call.func) or "") if isinstance(call, ast.Call) else ""
        kind = kind.removeprefix("T.")
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        if kind == "grid":
            ranges = [[ast.Constant(0), extent] for extent in call.args]
        elif kind in LOOPS or kind == "range":
            ends = [end for end in call.args if not isinstance(getattr(end, "value", 0), str)]
            ends = [ast.Constant(0), *ends] if len(ends) == 1 else ends
            ends += [keyword.value for keyword in call.keywords if keyword.arg == "step"]
            ranges = [ends] if len(ends) in (2, 3) else []
        else:
            ranges = []
        if len(ranges) != len(targets) or not all(isinstance(t, ast.Name) for t in targets):
            message = f"no counterpart in kernels: a loop over {ast.unparse(node.iter)}"
            raise self.wrong(node.iter, message, "`for i in range(n):` or `T.grid(n, m)`")
        names = [str(getattr(target, "id", "")) for target in targets]
        starts = [self.value(first) for first, *_ in ranges]
        self.loops |= dict(zip(names, starts, strict=True))
        body = self.block(node.body)
        for name, first, (_, *ends) in reversed(list(zip(names, starts, ranges, strict=True))):
            body = self.around(node, body, name, [first, *map(self.value, ends)])
        return body

    def around(
        self, node: ast.For, body: list[Item], name: str, bounds: list[ast.expr]
    ) -> list[Item]:
        """Returns one loop; a start that is alone in a reduction loop moves before it."""
        moved: list[Item] = []
        if len(body) == 2 and isinstance(body[0], _Start) and name in body[0].steps:
            rest = {n: v for n, v in body[0].steps.items() if n != name}
            moved, body = [attrs.evolve(body[0], steps=rest)], body[1:]
        is_zero = isinstance(bounds[0], ast.Constant) and bounds[0].value == 0
        bounds = bounds[1:] if is_zero and len(bounds) == 2 else bounds
        iterator = ast.Call(ast.Name("range", ast.Load()), bounds, [])
        target = ast.Name(name, ast.Store())
        statements = self.finished(body) or [ast.Pass()]
        return [*moved, located(ast.For(target, iterator, statements, []), node)]

    def with_name(self, node: ast.With, call: ast.Call, name: ast.Name) -> list[Item]:
        """Translates a loop over threads, or the value of a name."""
        if _called(call, "launch_thread") and len(call.args) == 2:
            loop = ast.For(
                name, ast.Call(ast.Name("range", ast.Load()), call.args[1:], []), node.body, []
            )
            return self.loop(located(loop, node))
        if _called(call, "LetStmt") and call.args:
            return [*self.assignment(node, name, call.args[0]), *self.block(node.body)]
        return self.with_block(node, call)

    def with_block(self, node: ast.With, call: ast.Call) -> list[Item]:
        """Translates a block; its `T.init` becomes a start."""
        if not any(_called(call, name) for name in BLOCKS):
            message = f"no counterpart in kernels: `with {ast.unparse(call)}`"
            raise self.wrong(node, message, "blocks, loops and assignments")
        axes: list[tuple[str, str, ast.expr | None]] = []
        body, start = [], []
        for item in node.body:
            declared = self.axes_of(item)
            if declared is not None:
                axes += declared
            elif isinstance(item, ast.With) and _called(item.items[0].context_expr, "init"):
                start = self.finished(self.block(item.body))
            else:
                body.append(item)
        items = self.block(body)
        if not start:
            return items
        statements = self.finished(items)
        whole = statements[0] if len(statements) == 1 else None
        update = whole or located(ast.If(ast.Constant(True), statements, []), node)
        return [self.start(start, axes), update]

    def start(
        self, statements: list[ast.stmt], axes: list[tuple[str, str, ast.expr | None]]
    ) -> _Start:
        """Returns the start of a reduction, which runs where every reduction axis is at its first
        value: at the first steps of its loops, if no spatial axis depends on them."""
        spatial = {n for name, kind, _ in axes if kind == SPATIAL for n in self.loops_of(name)}
        steps: dict[str, ast.expr] = {}
        tests: list[ast.expr] = []
        for name, kind, first in axes:
            loops = self.loops_of(name) if kind == REDUCTION else []
            if spatial.isdisjoint(loops):
                steps |= {loop: self.loops[loop] for loop in loops}
            else:
                tests.append(_equals(self.axes[name], first or ast.Constant(0)))
        return _Start(tuple(statements), steps, tuple(tests))

    def loops_of(self, axis: str) -> list[str]:
        """Returns the loops that the value of an axis depends on."""
        names = [n.id for n in ast.walk(self.axes[axis]) if isinstance(n, ast.Name)]
        return [name for name in names if name in self.loops]

    def axes_of(self, node: ast.stmt) -> list[tuple[str, str, ast.expr | None]] | None:
        """Records the axes that a statement declares; returns their names, kinds and first values.

        Returns None for any other statement.
        """
        call = node.value if isinstance(node, ast.Assign) else None
        path = path_of(call.func) if isinstance(call, ast.Call) else None
        if path is None or not path.startswith("T.axis.") or not isinstance(call, ast.Call):
            return None
        target: Any = node.targets[0]  # type: ignore[attr-defined]
        names = [item.id for item in getattr(target, "elts", [target])]
        if path == "T.axis.remap":
            kinds = str(getattr(call.args[0], "value", "")).replace("O", SPATIAL)
            values = getattr(call.args[1], "elts", [])
        else:
            kinds, values = AXES.get(path.rpartition(".")[2], ""), call.args[1:]
        if not (len(kinds) == len(values) == len(names)) or set(kinds) - {SPATIAL, REDUCTION}:
            message = f"no counterpart in kernels: `{ast.unparse(node)}`"
            raise self.wrong(node, message, '`i, k = T.axis.remap("SR", [i, k])`')
        for name, value in zip(names, values, strict=True):
            self.axes[name] = self.value(value)
        domain: Any = call.args[0]
        is_pair = isinstance(domain, ast.Tuple | ast.List) and len(domain.elts) == 2
        first = self.value(domain.elts[0]) if is_pair else None
        return [(name, kind, first) for name, kind in zip(names, kinds, strict=True)]

    def declaration(self, node: ast.AnnAssign, kind: str, value: ast.expr | None) -> list[Item]:
        """Translates `t: T.float32 = value`; without a value, the scalar is 0."""
        dtype = kind.removeprefix("T.")
        if dtype not in DTYPES:
            return self.assignment(node, node.target, value) if value is not None else []
        converted: ast.expr = ast.Call(
            ast.parse(f"T.{dtype}", mode="eval").body, [value or ast.Constant(0)], []
        )
        if value is None and dtype == "bool":
            converted = ast.Constant(False)
        scalar = ast.Call(ast.parse(f"T.{computed_in(dtype)}", mode="eval").body, [], [])
        scalar.args = [self.value(located(converted, node)) if value is None else self.value(value)]
        return [located(ast.Assign([node.target], scalar), node)]

    def assignment(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> list[Item]:
        """Translates a declaration of a dim or buffer, or an assignment."""
        name = target.id if isinstance(target, ast.Name) else ""
        if name and _called(value, "match_buffer"):
            source = getattr(value.args[0], "id", "")  # type: ignore[attr-defined]
            if source not in self.handles:
                message = f"no counterpart in kernels: `{ast.unparse(node)}`"
                raise self.wrong(node, message, "match the parameters of the function")
            self.handles[source] = name
            self.declare(name, self.tensor(value, 1))
            return []
        if name and any(_called(value, kind) for kind in ALLOCATIONS):
            tensor: Any = self.tensor(value)
            self.add_element(name, tensor)
            function = ast.parse("T.empty", mode="eval").body
            scratch = ast.Call(function, tensor.args, [])
            return [located(ast.Assign([target], scratch), node)]
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        if all(_declares_dim(value) for _, value in pairs):
            self.dims += [
                located(ast.parse(f"{ast.unparse(dim)} = T.int64()").body[0], node)
                for dim, _ in pairs
            ]
            return []
        if name and name not in self.elements:
            return [located(ast.Assign([target], self.value(value)), node)]
        return [located(ast.Assign([self.value(target)], self.value(value)), node)]

    # ---- scalar expressions

    def sizes(self) -> Iterator[str]:
        """Yields the names in shapes of buffers."""
        for annotation in self.buffers.values():
            for inner in ast.walk(annotation):
                if isinstance(inner, ast.Name):
                    yield inner.id

    def value(self, node: ast.expr, of_sizes: bool = False) -> ast.expr:
        """Translates a scalar expression; axes of blocks become their values."""
        translation = ScalarTranslation(
            {**self.elements, **self.axes}, frozenset(self.sizes()), of_sizes
        )
        try:
            scalar: ast.expr = located(translation.visit(copy.deepcopy(node)), node)
        except TooLargeError:
            hint = "bind the dividend to a name: `q = ...`"
            raise self.wrong(node, "the operand of a division is too large", hint) from None
        except UnknownDtypeError as error:
            message = f"unknown dtype {error.args[0]!r}"
            raise self.wrong(node, message, dtype_hint(error.args[0])) from None
        except (IndexError, ValueError):  # too few or too many operands
            message = f"no counterpart in kernels: `{ast.unparse(node)}`"
            raise self.wrong(node, message, "functions of scalars, such as `T.max(x, y)`") from None
        return scalar


def _equals(value: ast.expr, first: ast.expr) -> ast.expr:
    return ast.Compare(copy.deepcopy(value), [ast.Eq()], [copy.deepcopy(first)])


def _called(node: ast.AST | None, name: str) -> bool:
    """Whether an expression is a call of `T.name`."""
    return isinstance(node, ast.Call) and path_of(node.func) == f"T.{name}"


def _as_call(node: ast.expr | None) -> ast.expr | None:
    """Returns `T.Buffer[(n,), "float32"]` as `T.Buffer((n,), "float32")`."""
    if not isinstance(node, ast.Subscript) or path_of(node.value) != "T.Buffer":
        return node
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    is_shape = any([isinstance(item, ast.Tuple | ast.List | ast.Constant) for item in items[1:]])
    args = items if is_shape else [node.slice]
    return ast.copy_location(ast.Call(node.value, args, []), node)


def _is_ignored(func: ast.expr) -> bool:
    return (path_of(func) or "").removeprefix("T.") in IGNORED


def _declares_dim(node: ast.expr) -> bool:
    """Whether a value is `T.int64()`, `T.int32(is_size_var=True)` or a similar declaration."""
    if not isinstance(node, ast.Call):
        return False
    name = (path_of(node.func) or "").removeprefix("T.")
    return (name in DTYPES and not node.args) or name in DIM_FUNCTIONS


def _argument(node: ast.stmt, name: str) -> ast.expr | None:
    """Returns the argument of the statement `T.name(argument)`."""
    call = node.value if isinstance(node, ast.Expr) else None
    return call.args[0] if isinstance(call, ast.Call) and _called(call, name) else None


def _written(nodes: Sequence[ast.stmt]) -> Iterator[str]:
    """Yields the names of the arrays that statements write."""
    for node in nodes:
        for inner in ast.walk(node):
            targets = getattr(inner, "targets", [getattr(inner, "target", None)])
            for target in targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    yield target.value.id
