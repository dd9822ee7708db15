"""TVM's spellings that StructIR lacks: the counterpart of each, or the reason that there is none.

The parser reads a call or an annotation in TVM's spelling as its counterpart, and reports the
reason of one without a counterpart. `docs/coming-from-tvm.md` shows this table.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import attrs

from structir.ir.dtype import DTYPES, is_int
from structir.printer.parser.values import path_of


@attrs.frozen
class Spelling:
    """A pattern in TVM's spelling, and its counterpart with the same names.

    A pattern is a name, a call, or the call of a method of `x`. Its arguments are names; a keyword
    argument has a default, and `*name` and `**name` stand for all others. Without a counterpart,
    `note` is the reason and `edit` what to write instead.
    """

    tvm: str
    structir: str = ""
    note: str = ""
    edit: str = ""

    @property
    def path(self) -> str:
        """The dotted name of the pattern; of a method `.name`."""
        return path_of_pattern(self.tvm)


def path_of_pattern(pattern: str) -> str:
    """Returns the dotted name of a pattern."""
    name = pattern.partition("(")[0]
    return name.removeprefix("x") if name.startswith("x.") else name


NO_VIRTUAL_MACHINE = "plans run kernels without the instructions of a virtual machine"
NO_COLLECTIVES = "a program has no collectives: sharding is derived from it"
NO_TENSOR_EXPRESSIONS = "a program is parsed, and tensor expressions are Python that runs"
RELEASED = "values are released after their last use"
KERNEL = (
    "`@I.kernel` above `def f(...)` with loops over elements, and "
    '`R.call_kernel(cls.f, (x,), out_sinfo=R.Tensor((4,), "float32"))`'
)
FUNCTION = "`@R.function` above `def f(...)`, in the function that calls it"
SHARD = "`structir.distributed.shard(module, ...)`"

# The order is that of the page.
SPELLINGS: tuple[Spelling, ...] = (
    Spelling("R.Any", "R.Object"),
    Spelling("I.StringType()", "R.Object"),
    Spelling("R.emit(value)", "value"),
    Spelling("R.emit_match_cast(value, info)", "R.match_cast(value, info)"),
    Spelling("relax.TensorStructInfo(*args, **options)", "R.Tensor(*args, **options)"),
    Spelling("relax.ShapeStructInfo(*args, **options)", "R.Shape(*args, **options)"),
    Spelling("relax.TupleStructInfo(fields)", "R.Tuple(fields)"),
    Spelling("relax.PrimStructInfo(*args, **options)", "R.Prim(*args, **options)"),
    Spelling("relax.ObjectStructInfo()", "R.Object"),
    Spelling("relax.TupleGetItem(x, index)", "x[index]"),
    Spelling("relax.Tuple(fields)", "R.tuple(*fields)"),
    Spelling("relax.ShapeExpr(sizes)", "R.shape(sizes)"),
    Spelling("relax.PrimValue(value)", "R.prim_value(value)"),
    Spelling("relax.StringImm(text)", "R.str(text)"),
    Spelling("relax.DataTypeImm(dtype)", "R.dtype(dtype)"),
    Spelling("R.TupleGetItem(x, index)", "x[index]"),
    Spelling("x.astype(dtype)", "R.astype(x, dtype)"),
    Spelling("T.FloatImm(dtype, value)", "value"),
    Spelling("T.IntImm(dtype, value)", "value"),
    Spelling("T.Cast(dtype, size)", "size", "sizes have one dtype, int64"),
    Spelling("T.cast(size, dtype)", "size", "sizes have one dtype, int64"),
    Spelling("T.Add(a, b)", "a + b"),
    Spelling("T.Sub(a, b)", "a - b"),
    Spelling("T.Mul(a, b)", "a * b"),
    Spelling("T.FloorDiv(a, b)", "a // b"),
    Spelling("T.FloorMod(a, b)", "a % b"),
    Spelling("T.Max(a, b)", "T.max(a, b)"),
    Spelling("T.Min(a, b)", "T.min(a, b)"),
    Spelling("T.Div(a, b)", "T.truncdiv(a, b)"),
    Spelling("T.Mod(a, b)", "T.truncmod(a, b)"),
    Spelling("R.nn.attention_bias(*args, **options)", "R.nn.attention(*args, **options)"),
    Spelling("R.builtin.stop_lift_params(x)", "x", "the marker has no effect here"),
    Spelling("R.stop_lift_params(x)", "x", "the marker has no effect here"),
    Spelling("R.emit_with_ty(value, info)", "value", "the StructInfo is inferred"),
    Spelling("R.memory.kill_tensor(x)", "R.tuple()", RELEASED),
    Spelling("R.memory.kill_storage(x)", "R.tuple()", RELEASED),
    Spelling("R.vm.kill_object(x)", "R.tuple()", RELEASED),
    Spelling("R.memory.ensure_zero_offset(x)", "x", "values begin at the start of their memory"),
    Spelling(
        "R.print(*values, format='')",
        "R.call_packed('structir.print', R.str(format), *values, sinfo_args=R.Tuple())",
        "a function with this call has `pure=False`",
    ),
    Spelling(
        "R.assert_op(condition, format_args=(), format='')",
        "R.call_packed('structir.assert_op', condition, R.str(format), format_args, "
        "sinfo_args=R.Tuple())",
        "a function with this call has `pure=False`; for sizes write `R.require`",
    ),
    Spelling(
        "R.hint_on_device(x, device, memory_scope='global')",
        "R.to_vdevice(x, device)",
        "the result is on the device, without a later pass",
    ),
    Spelling("R.make_closure(*args)", note="closures are functions", edit=FUNCTION),
    Spelling(
        "R.invoke_closure(f, args)",
        note="closures are functions",
        edit="call it: `f(x)`, with the annotation `f: R.Callable((R.Tensor,), R.Tensor)`",
    ),
    Spelling(
        "R.invoke_pure_closure(f, args)",
        note="closures are functions",
        edit="call it: `f(x)`, with the annotation `f: R.Callable((R.Tensor,), R.Tensor)`",
    ),
    Spelling(
        "R.builtin.alloc_tensor(*args)",
        note=NO_VIRTUAL_MACHINE,
        edit="`R.memory.alloc_tensor(storage, offset, shape, dtype)`",
    ),
    Spelling("R.vm.alloc_storage(*args)", note=NO_VIRTUAL_MACHINE, edit="remove the call"),
    Spelling("R.vm.alloc_tensor(*args)", note=NO_VIRTUAL_MACHINE, edit="remove the call"),
    Spelling("R.vm.call_tir_dyn(*args)", note=NO_VIRTUAL_MACHINE, edit="`R.call_kernel`"),
    Spelling("R.call_tir_dyn(*args)", note=NO_VIRTUAL_MACHINE, edit="`R.call_kernel`"),
    Spelling(
        "R.call_builtin_with_ctx(*args)",
        note=NO_VIRTUAL_MACHINE,
        edit='`R.call_packed("name", x, sinfo_args=R.Tensor((4,), "float32"))`',
    ),
    Spelling("R.ccl.allreduce(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling("R.ccl.allgather(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling("R.ccl.broadcast_from_worker0(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling("R.ccl.scatter_from_worker0(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling("R.dist.annotate_sharding(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling("R.dist.redistribute_replica_to_shard(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling("R.dist.call_tir_local_view(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling("R.dist.redistribute(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling("R.dist.call_tir(*args)", note=NO_COLLECTIVES, edit=SHARD),
    Spelling(
        "R.call_tir(function, args, out_sinfo=(), tir_vars=())",
        "R.call_kernel(function, (*args, *tir_vars), out_sinfo=out_sinfo)",
        "`@T.prim_func` parses as a kernel, in the common form",
    ),
    Spelling(
        "R.call_tir_with_grad(function, args, out_sinfo=(), te_grad_name='', te_grad_kwargs=())",
        "R.call_kernel(function, (*args,), out_sinfo=out_sinfo)",
        "gradients of kernels are derived; the named one has no effect",
    ),
    Spelling("R.emit_te(*args)", note=NO_TENSOR_EXPRESSIONS, edit=KERNEL),
    Spelling("R.call_te(*args)", note=NO_TENSOR_EXPRESSIONS, edit=KERNEL),
    Spelling(
        "R.call_py_func(*args)",
        note="functions of Python are called by their registered names",
        edit='`R.call_pure_packed("name", x, sinfo_args=R.Tensor((4,), "float32"))`, after '
        '`structir.interpret.register_extern("name", function)`',
    ),
    Spelling(
        "R.call_tir_inplace(function, args, inplace_indices=(), out_sinfo=())",
        "R.call_kernel(function, (*args,), out_sinfo=out_sinfo)",
        "the kernel copies the operand, which keeps its value",
    ),
    Spelling(
        "R.call_inplace_packed(name, *args, inplace_indices=(), sinfo_args=())",
        "R.call_pure_packed('structir.call_inplace', R.str(name), *args, sinfo_args=sinfo_args)",
        "the function receives copies",
    ),
    Spelling(
        "R.vision.non_max_suppression(*args)",
        note="there is no op with this interface",
        edit="`R.vision.all_class_non_max_suppression(boxes, scores, ...)`",
    ),
    Spelling(
        "R.vision.multibox_transform_loc(*args)",
        note="there is no op with this interface",
        edit="write the arithmetic with `R.exp`, `R.multiply` and `R.concat`",
    ),
)
PAD, RESHAPE, PERMUTE = "nn.pad", "reshape", "permute_dims"  # the ops of `R.layout_transform`
# Values of attributes by op; the result of one without values has the dtype of its numbers.
VALUES: dict[str, dict[str, str]] = {"nn.pad": {"replicate": "edge"}, "one_hot": {}}
CONVERSION = "astype"  # the op that converts a result to the dtype of its numbers
MOVE, HINT = "to_vdevice", "hint_on_device"
RENAMED = {"out_ty": "out_sinfo", "ty_args": "sinfo_args"}  # keyword arguments
SEQUENCES = ("R.shape", "R.tuple")
PREFIXES = {"relax.op.": "R.", "relax.": "R."}  # for all other names


@cache
def spellings() -> Mapping[str, Spelling]:
    """Returns the table by dotted names."""
    return {spelling.path: spelling for spelling in SPELLINGS}


def spelling_of(path: str) -> Spelling | None:
    """Returns the entry of a dotted name, of a method `.name`, or None."""
    if dtype := _scalar(path):
        return Spelling(f"T.{dtype}(value)", "value")
    return spellings().get(path)


def uses_spellings(tree: ast.AST) -> bool:
    """Whether a text imports TVM or has one of its spellings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [getattr(node, "module", None), *[alias.name for alias in node.names]]
            if any(str(name).partition(".")[0] == "tvm" for name in modules):
                return True
        elif isinstance(node, ast.keyword) and node.arg in RENAMED:
            return True
        elif isinstance(node, ast.Attribute):
            path = path_of(node) or ""
            if path in spellings() or path.startswith((*PREFIXES, "T.prim_func")):
                return True
    return False


def _scalar(path: str) -> str | None:
    head, _, dtype = path.partition(".")
    return dtype if head == "T" and dtype in DTYPES else None


def counterpart(path: str, node: ast.expr) -> ast.expr | None:
    """Returns an expression of this dotted name in StructIR's spelling.

    Returns None for one without a counterpart, and if the arguments do not match the pattern.
    """
    spelling = spelling_of(path)
    dtype = _scalar(path)
    if dtype and not isinstance(node, ast.Call):
        return _located(_expression(f"R.Prim({dtype!r})"), node)
    if spelling is not None:
        return _rewritten(spelling, node) if spelling.structir else None
    prefix = next((prefix for prefix in PREFIXES if path.startswith(prefix)), None)
    if prefix is None:
        return None
    name = _expression(PREFIXES[prefix] + path.removeprefix(prefix))
    if isinstance(node, ast.Call):
        return _located(ast.Call(name, node.args, node.keywords), node)
    return _located(name, node)


def dtype_of_numbers(node: ast.Call) -> str | None:
    """Returns the dtype of the first number `T.float32(1)` in a call of an op, or None."""
    for item in [*node.args, *[keyword.value for keyword in node.keywords]]:
        for inner in ast.walk(item):
            path = path_of(inner.func) if isinstance(inner, ast.Call) else None
            if path is not None and (dtype := _scalar(path)) is not None:
                return dtype
    return None


def dtype_of_scalar(node: ast.expr) -> str | None:
    """Returns the integer dtype of the annotation `T.int64` of a parameter, or None."""
    is_member = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    if not is_member or node.value.id != "T":  # type: ignore[attr-defined]
        return None
    dtype: str = node.attr  # type: ignore[attr-defined]
    return dtype if dtype in DTYPES and is_int(dtype) else None


def _rewritten(spelling: Spelling, node: ast.expr) -> ast.expr | None:
    pattern = _expression(spelling.tvm)
    if not isinstance(pattern, ast.Call):
        extra = isinstance(node, ast.Call) and (node.args or node.keywords)
        return None if extra else _located(_expression(spelling.structir), node)
    if not isinstance(node, ast.Call):
        return None
    args = list(node.args)
    names = _signature(pattern)
    if spelling.path.startswith("."):
        args = [node.func.value, *args]  # type: ignore[attr-defined]
        names = names.replace(parameters=[_parameter("x"), *names.parameters.values()])
    if any(isinstance(arg, ast.Starred) for arg in args) or None in [k.arg for k in node.keywords]:
        return None
    try:
        options = {RENAMED.get(str(k.arg), str(k.arg)): k.value for k in node.keywords}
        bound = names.bind(*args, **options)
    except TypeError:
        return None
    bound.apply_defaults()
    return _located(_Substitution(bound.arguments).visit(_expression(spelling.structir)), node)


def _parameter(name: str) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _signature(pattern: ast.Call) -> inspect.Signature:
    """Returns the parameters of a pattern; those of its keywords have defaults."""
    parameters: list[inspect.Parameter] = []
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for item in pattern.args:
        name = ast.unparse(item)
        if name.startswith("*"):
            parameters.append(inspect.Parameter(name[1:], inspect.Parameter.VAR_POSITIONAL))
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            parameters.append(_parameter(name))
    for keyword in pattern.keywords:
        if keyword.arg is None:
            name = ast.unparse(keyword.value)
            parameters.append(inspect.Parameter(name, inspect.Parameter.VAR_KEYWORD))
        else:
            parameters.append(inspect.Parameter(keyword.arg, kind, default=keyword.value))
    return inspect.Signature(parameters)


class _Substitution(ast.NodeTransformer):
    """Replaces the names of a pattern by arguments."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.values.get(node.id, node)
        return value if isinstance(value, ast.expr) else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        args: list[ast.expr] = []
        for item in node.args:
            if isinstance(item, ast.Starred) and isinstance(item.value, ast.Name):
                args += self._items(item.value.id)
            else:
                args.append(self.visit(item))
        keywords: list[ast.keyword] = []
        for keyword in node.keywords:
            if keyword.arg is None:
                options = self.values.get(ast.unparse(keyword.value), {})
                keywords += [ast.keyword(k, v) for k, v in options.items()]  # type: ignore[attr-defined]
            else:
                keywords.append(ast.keyword(keyword.arg, self.visit(keyword.value)))
        return ast.Call(node.func, args, keywords)

    def visit_Tuple(self, node: ast.Tuple) -> ast.Tuple:
        items: list[ast.expr] = []
        for item in node.elts:
            if isinstance(item, ast.Starred) and isinstance(item.value, ast.Name):
                items += self._items(item.value.id)
            else:
                items.append(self.visit(item))
        return ast.Tuple(items, ast.Load())

    def _items(self, name: str) -> list[ast.expr]:
        value = self.values.get(name, ())
        if isinstance(value, ast.Call) and path_of(value.func) in SEQUENCES:
            value = value.args[0] if path_of(value.func) == "R.shape" else ast.Tuple(value.args)
        if isinstance(value, ast.Tuple | ast.List):
            return value.elts
        return list(value) if isinstance(value, tuple) else [value]  # type: ignore[list-item]


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _expression(text: str) -> ast.expr:
    return copy.deepcopy(_parsed(text))


def _located(node: ast.expr, source: ast.expr) -> ast.expr:
    """Gives new nodes the location of the source; nodes taken from the source keep theirs."""
    own = {id(inner) for inner in ast.walk(source)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr | ast.keyword) and id(inner) not in own:
            ast.copy_location(inner, source)
    return node
