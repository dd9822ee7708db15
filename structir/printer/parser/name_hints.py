"""Hints for names that a program does not define."""

from __future__ import annotations

import ast

from structir.ir.dtype import DTYPES, ELSEWHERE
from structir.ir.op import find_op, registered_ops

NAMESPACES = {
    "R": "call an op: `R.exp(x)`",
    "T": "declare a dim, `n = T.int64()`, or compute a size: `T.max(n, 1)`",
    "I": "decorate a module or a kernel: `@I.ir_module`, `@I.kernel`",
}
BUILTINS = {
    "len": "read the size of the first axis: `x.shape[0]`",
    "sum": "call the op: `R.sum(x)`",
    "range": "loop over it, `for i in range(3):`, or call the op: `R.arange(n)`",
    "float": 'call the op: `R.astype(x, "float32")`',
    "int": 'call the op: `R.astype(x, "int64")`',
    "bool": 'call the op: `R.astype(x, "bool")`',
    "list": "write a tuple: `(x, y)`",
    "tuple": "write a tuple: `(x, y)`",
}


def undefined_hint(name: str, expects_sizes: bool) -> str:
    """Returns the hint for a name that is not in scope."""
    if expects_sizes:
        hint = f"declare the dim: `{name} = T.int64()`, "
        return hint + f'or quote it in the annotation of a parameter: `("{name}", 4)`'
    dtype = dtype_of_name(name)
    if dtype is not None:
        return f'quote the dtype: `"{dtype}"`'
    return f'bind it first: `{name} = ...`, or add a parameter: `{name}: R.Tensor((4,), "float32")`'


def dtype_of_name(name: str) -> str | None:
    """Returns the dtype that a name of Python denotes; None for another name."""
    return name if name in DTYPES else ELSEWHERE.get(name)


def is_namespace(path: str) -> bool:
    """Whether `R.nn` is the common prefix of ops."""
    prefix = path.removeprefix("R.") + "."
    return any([op.name.startswith(prefix) for op in registered_ops()])


def example_of(path: str) -> str:
    """Returns the first op of a namespace, as a call."""
    prefix = path.removeprefix("R.") + "."
    names = [op.name for op in registered_ops() if op.name.startswith(prefix)]
    return f"R.{min(names)}(...)"


def attribute_hint(node: ast.Attribute) -> str:
    """Returns the hint for `np.exp`, the attribute of a name that is no value of the program."""
    dtype = dtype_of_name(node.attr)
    if dtype is not None and ast.unparse(node.value) in ("np", "numpy", "jnp", "torch"):
        return f'write the name of the dtype: `"{dtype}"`'
    if find_op(node.attr) is not None:
        return f"did you mean `R.{node.attr}`?"
    return "call functions of the module as `cls.name(...)`, ops as `R.name(...)`"


def method_hint(node: ast.Attribute, call: ast.Call) -> str | None:
    """Returns the hint for a method of NumPy or PyTorch that is an op: the call with its arguments.

    Several arguments are one tuple where the op takes sizes. Returns None for other methods.
    """
    base = ast.unparse(node.value)
    op = next((op for op in registered_ops() if op.name.rpartition(".")[2] == node.attr), None)
    if op is None:
        return None
    values = [ast.unparse(value) for value in call.args]
    if len(values) > 1 and op.definition.of_sizes[1:2] == (True,):
        values = [f"({', '.join(values)})"]
    names = [ast.unparse(keyword) for keyword in call.keywords]
    return f"call the op: `R.{op.name}({', '.join([base, *values, *names])})`"
