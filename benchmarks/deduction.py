"""What deduction costs: a program that uses each op of a set once, many times over, in time a
binding.

    python benchmarks/deduction.py                # the ops of COMMON, 1,000 times over
    python benchmarks/deduction.py --every --times 100 --slowest 20

COMMON does not change, so that its times compare between versions; `--every` takes all ops that
this version declares. The title of the table has the name of the set and its size.
`alike` repeats the program on the same operands; in `fresh` each repetition has symbolic sizes of
its own, so that nothing of an earlier one is known. `emit` is a binding by the builder: the call,
its deduction, a variable.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import warnings
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table

from structir.errors import DiagnosticError
from structir.ir import BlockBuilder, Expr, Op, TensorStructInfo, Tuple, Var, registered_ops
from structir.ir.dims import Dim, sym

Symbols = dict[int, Dim]
Arguments = tuple[list[Any], dict[str, Any]]
Times = dict[str, list[float]]  # of each op, in seconds


COMMON = (
    *("add", "subtract", "multiply", "divide", "exp", "sqrt", "tanh", "less", "where", "astype"),
    *("sum", "mean", "max", "argmax", "cumsum", "matmul", "reshape", "permute_dims", "expand_dims"),
    *("squeeze", "broadcast_to", "concat", "split", "take", "strided_slice", "full"),
    *("nn.relu", "nn.gelu", "nn.softmax", "nn.layer_norm", "nn.conv2d", "nn.max_pool2d"),
)


def used_ops(every: bool) -> Iterator[Op]:
    """Returns the common ops, or every op that is declared by an index signature."""
    for op in registered_ops():
        if hasattr(op.definition, "index_signature") and (every or op.name in COMMON):
            yield op


def as_expression(value: Any, symbols: Symbols | None) -> Any:
    """An argument of an example: tensors as variables, sizes over 1 as symbols."""
    if isinstance(value, list):
        items = [as_expression(item, symbols) for item in value]
        return Tuple(tuple(items)) if items and isinstance(items[0], Expr) else items
    if not hasattr(value, "dtype"):
        return value
    sizes = tuple([_size(n, symbols) for n in value.shape])
    return Var("x", TensorStructInfo(sizes, value.dtype.name))


def _size(size: int, symbols: Symbols | None) -> Dim:
    if symbols is None or size < 2:
        return size
    return symbols.setdefault(size, sym(f"n{size}"))


def arguments(op: Op, symbols: Symbols) -> Arguments:
    """Arguments for a call at symbolic sizes; at plain ones where the op does not take those."""
    args, keywords = op.definition.examples[0]  # type: ignore[attr-defined]
    for sizes in (symbols, None):
        made = [as_expression(a, sizes) for a in args]
        named = {n: as_expression(v, sizes) for n, v in keywords.items()}
        try:
            op(*made, **named)
        except DiagnosticError:
            continue
        return made, named
    raise ValueError(f"{op.name}: its example is refused")


def timed(calls: dict[str, Callable[[], Any]], times: Times) -> None:
    """Run every call once, and note how long it took."""
    for name, call in calls.items():
        start = perf_counter()
        call()
        times.setdefault(name, []).append(perf_counter() - start)


def calls_of(ops: dict[str, Op], given: dict[str, Arguments]) -> dict[str, Callable[[], Any]]:
    return {n: lambda op=op, a=given[n]: op(*a[0], **a[1]) for n, op in ops.items()}


def alike(ops: dict[str, Op], repeats: int) -> Times:
    """The same operands in every repetition."""
    symbols: Symbols = {}
    given = {name: arguments(op, symbols) for name, op in ops.items()}
    times: Times = {}
    for _ in range(repeats):
        timed(calls_of(ops, given), times)
    return times


def fresh(ops: dict[str, Op], repeats: int) -> Times:
    """Symbolic sizes of its own in every repetition."""
    times: Times = {}
    for _ in range(repeats):
        symbols: Symbols = {}
        given = {name: renewed(op, symbols) for name, op in ops.items()}
        timed(calls_of(ops, given), times)
    return times


def renewed(op: Op, symbols: Symbols) -> Arguments:
    """Arguments at fresh symbols, without a call that would make them known."""
    args, keywords = op.definition.examples[0]  # type: ignore[attr-defined]
    sizes = symbols if op.name not in CONSTANT else None
    return (
        [as_expression(a, sizes) for a in args],
        {n: as_expression(v, sizes) for n, v in keywords.items()},
    )


CONSTANT: set[str] = set()  # ops whose examples do not fit symbolic sizes


def emitted(ops: dict[str, Op], repeats: int) -> Times:
    """Bindings made by the builder."""
    symbols: Symbols = {}
    given = {name: arguments(op, symbols) for name, op in ops.items()}
    builder, times = BlockBuilder(), dict[str, list[float]]()
    makers = calls_of(ops, given)
    with builder.function("main", sorted(variables(given), key=id)):
        emits = {n: lambda m=make: builder.emit(m()) for n, make in makers.items()}
        for _ in range(repeats):
            timed(emits, times)
        builder.emit_func_output(Tuple(()))
    return times


def variables(given: dict[str, Arguments]) -> set[Var]:
    """All operands."""
    values = [v for args, named in given.values() for v in (*args, *named.values())]
    fields = [f for v in values if isinstance(v, Tuple) for f in v.fields]
    return {v for v in (*values, *fields) if isinstance(v, Var)}


def note_constant(ops: dict[str, Op]) -> None:
    for name, op in ops.items():
        try:
            made, named = renewed(op, {})
            op(*made, **named)
        except DiagnosticError:
            CONSTANT.add(name)


def table_of(title: str, found: dict[str, Times], slowest: int) -> Table:
    table = Table("bindings", title=title, caption="us a binding")
    for column in ("ops", "median", "of the slowest tenth", "slowest ops, by median"):
        table.add_column(column)
    for kind, times in found.items():
        every = sorted(t for own in times.values() for t in own)
        middles = {name: statistics.median(own) for name, own in times.items()}
        worst = sorted(middles, key=lambda name: -middles[name])[:slowest]
        table.add_row(
            kind,
            str(len(times)),
            f"{statistics.median(every) * 1e6:.1f}",
            f"{every[len(every) * 9 // 10] * 1e6:.1f}",
            ", ".join([f"{name} {middles[name] * 1e6:.0f}" for name in worst]),
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--slowest", type=int, default=8)
    parser.add_argument("--every", action="store_true", help="every op, not only those of COMMON")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    ops = {op.name: op for op in used_ops(asked.every)}
    note_constant(ops)
    gc.freeze()
    found = {
        "alike": alike(ops, asked.times),
        "fresh": fresh(ops, max(asked.times // 10, 1)),
        "emit": emitted(ops, asked.times),
    }
    title = f"deduction of {'every op' if asked.every else 'COMMON'}: {len(ops)} ops"
    Console().print(table_of(title, found, asked.slowest))


if __name__ == "__main__":
    main()
