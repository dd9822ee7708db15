"""Imports calls of every op of torch's own test database, and compares results with torch.

    python benchmarks/torch_ops.py --dtypes float32,int64 --samples 4
    python benchmarks/torch_ops.py --names cdist,linalg.lu --samples 100 --compiled

`torch.testing` lists about 700 ops with sample operands (its `op_db`). Each sample is exported with
`Dim.AUTO` on every axis, imported and run, interpreted or with `--compiled` compiled. The table
lists the ops with a call that differs or is rejected; the exit code is 1 if a result differs.
Results that torch leaves open (random numbers, positions of equal elements, signs of singular
vectors) may differ. It requires torch, and expecttest, which torch's tests import.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import structir  # noqa: E402
from structir.errors import DiagnosticError, StructIRError  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

# Ops whose results are random or uninitialized, that need a device or a sparse layout.
EXCLUDED = (
    *("jiterator", "empty", "sparse", "_flash", "_efficient", "_scaled", "resize", "bernoulli"),
    *("multinomial", "normal", "rand", "cauchy", "exponential", "geometric", "uniform", "rrelu"),
    *("fractional", "dropout", "triton", "masked.", "hash_tensor"),
)
STATES = ("equal", "not exported", "not imported", "not run", "differs")
TIME_LIMIT = 60  # seconds of one call
Outcome = tuple[str, str]  # the state and a message


class _Tensor:
    """Stands for the next tensor among the arguments of a call."""


def call_module(torch: Any, function: Any, leaves: list[Any], tree: Any) -> Any:
    """Returns a module whose operands are the tensors of a call; other arguments are constants."""
    arguments = [_Tensor if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    class Call(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *tensors: Any) -> Any:
            remaining = iter(tensors)
            values = [next(remaining) if leaf is _Tensor else leaf for leaf in arguments]
            args, kwargs = torch.utils._pytree.tree_unflatten(values, tree)
            return function(*args, **kwargs)

    return Call()


def outcome(torch: Any, function: Any, sample: Any, is_compiled: bool) -> Outcome:
    """Returns the outcome of one sample call."""
    call = ([sample.input, *sample.args], dict(sample.kwargs))
    leaves, tree = torch.utils._pytree.tree_flatten(call)
    tensors = [leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor)]
    module = call_module(torch, function, leaves, tree)
    auto = torch.export.Dim.AUTO
    axes = [dict.fromkeys(range(x.dim()), auto) or None for x in tensors]
    try:
        expected = module(*[x.clone() for x in tensors])
        copies = tuple([x.clone() for x in tensors])
        shapes = (tuple(axes),) if axes else None
        program = torch.export.export(module, copies, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        return "not exported", str(error).strip().partition("\n")[0]
    try:
        imported = from_exported_program(program)
    except DiagnosticError as error:
        return "not imported", str(error)
    operands = [_array(x) for x in tensors]
    try:
        if is_compiled:
            results = structir.compile(imported)(*operands)
        else:
            results = structir.interpret(imported, "main", *operands)
    except StructIRError as error:
        return "not run", str(error)
    results = list(results) if isinstance(results, tuple | list) else [results]
    references = [x for x in torch.utils._pytree.tree_leaves(expected) if x is not None]
    results = results[: len(references)]  # operands that the call writes follow
    for result, reference in zip(results, references, strict=True):
        text = _difference(np.asarray(result), _array(torch.as_tensor(reference)))
        if text:
            return "differs", text
    return "equal", ""


def _array(tensor: Any) -> Any:
    """Returns a tensor as an array; the parts of complex numbers are along a last axis."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        pairs = tensor.numpy()
        return np.stack([pairs.real, pairs.imag], axis=-1)
    return tensor.float().numpy() if str(tensor.dtype) == "torch.bfloat16" else tensor.numpy()


def _difference(result: Any, expected: Any) -> str:
    if result.shape != expected.shape:
        return f"expected the shape {expected.shape}, found {result.shape}"
    if expected.dtype.kind in "biu":
        equal = np.array_equal(result, expected)
    else:
        result, expected = result.astype("float64"), expected.astype("float64")
        finite = np.abs(expected[np.isfinite(expected)])
        scale = max(float(finite.max(initial=0)), 1e-2)
        tolerance = 2e-2 if expected.dtype.itemsize == 2 else 1e-3
        equal = np.allclose(result, expected, tolerance, tolerance * scale, equal_nan=True)
    return "" if equal else f"expected {expected.ravel()[:4]}, found {result.ravel()[:4]}"


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"longer than {TIME_LIMIT} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(TIME_LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)


def check(torch: Any, op: Any, dtype: Any, arguments: argparse.Namespace) -> list[Outcome]:
    """Returns the outcomes of the samples of an op, evenly chosen."""
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    results = []
    for sample in samples[:: max(1, len(samples) // arguments.samples)]:
        try:
            with _time_limit():
                results.append(outcome(torch, op.op, sample, arguments.compiled))
        except TimeoutError as error:
            results.append(("not run", str(error)))
    return results


def main() -> int:
    """Runs the calls and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--names", default="", help="names of ops, with commas; all by default")
    parser.add_argument("--dtypes", default="float32,int64", help="dtypes of the operands")
    parser.add_argument("--samples", type=int, default=4, help="calls of each op and dtype")
    parser.add_argument("--compiled", action="store_true", help="compile the calls")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    database = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
    names = set(filter(None, arguments.names.split(",")))
    ops = [op for op in database if _is_selected(op, names)]
    table = Table("op", "dtype", *STATES, "first message")
    totals: Counter[str] = Counter()
    for op in track(ops, "calls"):
        for name in arguments.dtypes.split(","):
            dtype = getattr(torch, name)
            if dtype not in op.dtypes:
                continue
            results = check(torch, op, dtype, arguments)
            counts = Counter(state for state, _ in results)
            totals += counts
            messages = [text for state, text in results if state not in STATES[:2]]
            if messages:
                row = [str(counts[state] or "") for state in STATES]
                table.add_row(_name(op), name, *row, messages[0].partition("\n")[0])
    console = Console()
    console.print(table)
    console.print(", ".join([f"{totals[state]} {state}" for state in STATES]))
    return int(totals["differs"] > 0)


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def _is_selected(op: Any, names: set[str]) -> bool:
    if names:
        return op.name in names or _name(op) in names
    return not any(part in _name(op) for part in EXCLUDED)


if __name__ == "__main__":
    sys.exit(main())
