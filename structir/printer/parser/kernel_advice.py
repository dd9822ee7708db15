"""Edits for Python and numba that kernels do not have, for error messages."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable

from structir.printer.parser.values import path_of

LOOP = "write a loop: `for i in range(x.shape[0]): total += x[i]`"
LIBRARIES = ("np", "numpy", "math", "jnp", "torch", "cuda", "numba", "nb", "tl")
ALLOCATE = 'allocate an array: `row = T.zeros((n,), "float32")`'
THREAD = "`i = T.block() * T.threads() + T.thread()`, in GPU kernels"
CALLS = {
    "if_then_else": "write a conditional expression: `x if i > 0 else y`",
    "Select": "write a conditional expression: `x if i > 0 else y`",
    "where": "write a conditional expression: `x if i > 0 else y`",
    "int": "convert with a dtype: `T.int64(x)`",
    "bool": "compare: `x != 0`",
    "pow": "write `x ** y`",
    "round": "write `T.round(x)`",
    "sum": LOOP,
    "any": LOOP,
    "all": LOOP,
    "sorted": "sort in a function: `R.sort(x)`",
    "divmod": "write `x // y` and `x % y`",
    "print": "write the value to a result, and print it from Python",
    **dict.fromkeys(("zeros", "empty", "ones", "full", "zeros_like", "empty_like"), ALLOCATE),
    "fill": "write a loop: `for i in range(n): out[i] = 0`",
    "grid": THREAD,
    "program_id": THREAD,
    "syncthreads": "write `T.sync_threads()`",
    "sync_threads": "write it as a statement of its own: `T.sync_threads()`",
    "shared.array": '`part = T.shared((64,), "float32")`, in GPU kernels',
    **dict.fromkeys(
        ("atomic_add", "atomic.add", "atomic_max", "atomic.max"),
        "a CPU kernel runs in order: `out[i] += x`; GPU kernels have no atomics: "
        "give each thread an element of its own",
    ),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "dot", "argmax", "argmin"), LOOP),
}
LOOPS = {
    "prange": "`for i in range(n):`; for parts that run in parallel, `lo, hi = T.part(n)`",
    "T.parallel": "`for i in range(n):`; for parts that run in parallel, `lo, hi = T.part(n)`",
    "T.serial": "`for i in range(n):`",
    "T.grid": "one loop for each axis: `for i in range(n):`, `for j in range(m):`",
    "enumerate": "`for i in range(x.shape[0]):`, and `x[i]` in the loop",
    "zip": "`for i in range(x.shape[0]):`, and `x[i]`, `y[i]` in the loop",
    "reversed": "`for i in range(n - 1, -1, -1):`",
}


def call_advice(node: ast.Call, functions: Iterable[str]) -> str:
    """Returns the edit for a call of a function that kernels do not have."""
    name = path_of(node.func) or ""
    head, _, rest = name.partition(".")
    known = list(functions)
    is_library = head in LIBRARIES or head == "T"
    plain = rest if is_library else name
    if f"T.{plain}" in known:
        return f"did you mean `T.{plain}`?"
    if head == "T" and plain in known:
        return f"did you mean `{plain}`?"
    last = name.rpartition(".")[2] or getattr(node.func, "attr", "")
    for key in (plain, last):
        if key in CALLS:
            return CALLS[key]
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"did you mean `{close[0]}`?"
    if not is_library:
        return "kernels call no other functions: write the expression in place"
    return f"use one of {', '.join(known)}"


def loop_advice(iterated: ast.expr) -> str:
    """Returns the edit for a loop over another value than a range."""
    name = path_of(iterated.func) if isinstance(iterated, ast.Call) else None
    if name in LOOPS:
        return LOOPS[name]
    if isinstance(iterated, ast.Name):
        text = iterated.id
        return f"`for i in range({text}.shape[0]):`, and `{text}[i]` in the loop"
    return "`for i in range(n):`, `range(start, stop)` or `range(start, stop, 2)`"
