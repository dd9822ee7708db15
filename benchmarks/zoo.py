"""Imports about 360 architectures of torchvision, timm and transformers, and compares results.

    python benchmarks/zoo.py --names bert,timm:vit
    python benchmarks/zoo.py --compiled --jobs 2

Each model has a small configuration and random weights. It is exported with `Dim.AUTO` on the
batch and, for text, on the length, imported, and run at three sizes, batch 1 and length 1 among
them; the results of torch are the reference. Each model runs in a child process with a time limit.
The results are written to benchmarks/results/zoo.json. `--onnx` imports the ONNX file that torch
exports instead; it requires onnxscript. `--torch-compile` runs `torch.compile(model,
backend="structir")` at three sizes above 1, with the same axes marked as dynamic; a model that runs
in torch in part is not imported, and one with more graphs than by the backend "aot_eager" is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import structir  # noqa: E402
from benchmarks.zoo_models import Case, cases  # noqa: E402
from structir.frontend.onnx import from_onnx  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "zoo.json"
RELATIVE_TOLERANCE = 1e-3  # of the largest element of the reference
# The states of a model, in the order in which they are reached.
STATES = ("not built", "not exported", "not imported", "not run", "wrong", "correct")
Record = dict[str, Any]
# Children are forked after the import of the libraries, which takes longer than a small model.
CONTEXT = multiprocessing.get_context("fork")
LIBRARIES = ("torch", "torch.export", "torchvision.models", "timm", "transformers")


# ---- comparison


def difference(results: Sequence[Any], reference: Sequence[Any]) -> str:
    """Returns how results differ from the reference, or an empty string."""
    if len(results) != len(reference):
        return f"expected {len(reference)} results, found {len(results)}"
    for index, (result, expected) in enumerate(zip(results, reference, strict=True)):
        text = _array_difference(np.asarray(result), np.asarray(expected))
        if text:
            return f"result {index}: {text}"
    return ""


def _array_difference(result: Any, expected: Any) -> str:
    if result.shape != expected.shape:
        return f"expected the shape {expected.shape}, found {result.shape}"
    if result.dtype != expected.dtype:
        return f"expected the dtype {expected.dtype}, found {result.dtype}"
    if expected.dtype.kind in "biu":
        return "" if np.array_equal(result, expected) else "integers differ"
    finite = np.isfinite(expected)
    if not np.array_equal(result[~finite], expected[~finite], equal_nan=True):
        return "non-finite elements differ"
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(result - expected), 0)
    limit = RELATIVE_TOLERANCE * np.max(np.abs(expected), where=finite, initial=0) + 1e-6
    largest = np.max(error, initial=0)
    return "" if largest <= limit else f"differs by {largest:.3g}, expected at most {limit:.3g}"


# ---- one model, in a child process


class StageError(Exception):
    """Raised for a failure of one stage; the arguments are the state and the message."""


def check(case: Case, arguments: argparse.Namespace) -> Record:
    """Returns the record of one model: its state, a message and the seconds of each stage."""
    record: Record = {"name": case.name, "state": "correct", "message": ""}
    clock = time.process_time()
    try:
        _check(case, arguments, record)
    except StageError as error:
        record["state"], record["message"] = error.args
    record["seconds"] = round(time.process_time() - clock, 2)
    return record


def _check(case: Case, arguments: argparse.Namespace, record: Record) -> None:
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = _stage("not built", lambda: _perturbed(torch, case.build().eval()))
    inputs = _stage("not built", lambda: [case.inputs(model, *size) for size in case.sizes])
    with torch.no_grad():
        _stage("not built", lambda: model(**inputs[1]))
        if arguments.torch_compile:
            _check_torch_compile(torch, case, model, record)
            return
        program = _stage("not exported", lambda: _export(torch, case, model, inputs[1], arguments))
        module = _stage("not imported", lambda: _imported(program, arguments, record))
        run = _stage("not run", lambda: _runner(module, arguments))
        for size, values in zip(case.sizes, inputs, strict=True):
            _compare(torch, model, program, module, run, values, size, record)
        if "sizes the export rejects" in record:  # torch has specialized the length
            for size in {(batch, case.example[1]) for batch, _ in case.sizes} - {*case.sizes}:
                values = case.inputs(model, *size)
                _compare(torch, model, program, module, run, values, size, record)


def _check_torch_compile(torch: Any, case: Case, model: Any, record: Record) -> None:
    """Compares a model that `torch.compile` compiled once at sizes above 1."""
    length = case.example[1]
    sizes = (case.example, case.sizes[2], (5, length and length + 2))
    inputs = [case.inputs(model, *size) for size in sizes]
    for values in inputs:
        for name, value in values.items():
            torch._dynamo.maybe_mark_dynamic(value, list(case.axes[name]))
    graphs = _graph_counts(torch, torch.compile(model, backend="aot_eager"), inputs)
    compiled = torch.compile(model, backend="structir")
    own = _graph_counts(torch, compiled, inputs)
    if own[-1] > graphs[-1]:
        raise StageError("wrong", f"{own} graphs after each size; {graphs} without StructIR")
    record["graphs"] = graphs
    for size, values in zip(sizes, inputs, strict=True):
        first, second = (_arrays(torch, model(**values)) for _ in range(2))
        text = difference(_arrays(torch, compiled(**values)), first)
        if text and not difference(first, second):
            raise StageError("wrong", f"{size}: {text}")


def _graph_counts(torch: Any, compiled: Any, inputs: Any) -> list[int]:
    """Returns the number of graphs after the calls at each size, which torch's guards determine."""
    torch._dynamo.reset()
    counts = torch._dynamo.utils.counters
    counts.clear()
    result = []
    for values in inputs:
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            _stage("not run", lambda: compiled(**values))  # noqa: B023
        reasons = [str(m.message) for m in messages if "runs in torch" in str(m.message)]
        if reasons:
            raise StageError("not imported", reasons[0][:2000])
        result.append(counts["stats"]["unique_graphs"])
    return result


def _arrays(torch: Any, results: Any) -> list[Any]:
    leaves = torch.utils._pytree.tree_leaves(results)
    return [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _stage(state: str, act: Any) -> Any:
    try:
        return act()
    except Exception as error:
        raise StageError(state, f"{type(error).__name__}: {error}"[:2000]) from error


def _perturbed(torch: Any, model: Any) -> Any:
    """Returns the model with noise on its parameters: some are initialized to zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


def _export(torch: Any, case: Case, model: Any, inputs: Any, arguments: Any) -> Any:
    auto = torch.export.Dim.AUTO
    shapes = {name: dict.fromkeys(case.axes[name], auto) for name in inputs}
    if not arguments.onnx:
        return torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes)
    return torch.onnx.export(
        model, (), kwargs=inputs, dynamic_shapes=shapes, dynamo=True, verbose=False
    )


def _imported(program: Any, arguments: argparse.Namespace, record: Record) -> Any:
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        module = (
            from_onnx(program.model_proto) if arguments.onnx else from_exported_program(program)
        )
    record["warnings"] = [str(m.message) for m in messages]
    return module


def _runner(module: Any, arguments: argparse.Namespace) -> Any:
    if arguments.compiled:
        return structir.compile(module)["main"]
    return lambda *values: structir.interpret(module, "main", *values)


def _compare(
    torch: Any, model: Any, program: Any, module: Any, run: Any, values: Any, size: Any, record: Any
) -> None:
    try:
        reference = _arrays(torch, model(**values))
    except Exception as error:
        record.setdefault("sizes torch rejects", []).append([*size, str(error)[:200]])
        return
    names = [str(name) for name in module["main"].attrs["input_names"]]
    mutated = [name for name in names if name not in values]  # buffers, which are results, too
    values_by_name = {**values, **{name: _buffer(program, name) for name in mutated}}
    try:
        results = run(*[values_by_name[name].numpy() for name in names])
    except Exception as error:
        if _is_rejected(program, values):
            record.setdefault("sizes the export rejects", []).append([*size, str(error)[:300]])
            return
        raise StageError("not run", f"{size}: {type(error).__name__}: {error}"[:2000]) from error
    results = list(results) if isinstance(results, tuple | list) else [results]
    text = difference(results[: len(results) - len(mutated)], reference)
    if text and _lacks_constraints(program) and _is_rejected(program, values):
        record.setdefault("sizes the export rejects", []).append([*size, text])
    elif text:
        raise StageError("wrong", f"{size}: {text}")


def _buffer(program: Any, name: str) -> Any:
    """Returns the buffer of an exported program that is the input `name`."""
    buffers = {**program.state_dict, **program.constants}
    return buffers[program.graph_signature.inputs_to_buffers[name]]


def _lacks_constraints(program: Any) -> bool:
    """Returns whether the import lacks the constraints of the export: an ONNX file declares a
    length as dynamic, even if torch has specialized it."""
    return hasattr(program, "exported_program")


def _is_rejected(program: Any, values: Any) -> bool:
    """Returns whether the exported program itself rejects these sizes."""
    exported = getattr(program, "exported_program", program)
    try:
        exported.module()(**values)
    except Exception:
        return True
    return False


# ---- all models


def run_child(name: str, arguments: argparse.Namespace) -> Record:
    """Returns the record of a model, checked in a child process."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    child = CONTEXT.Process(target=_child, args=(name, arguments, sender), daemon=True)
    clock = time.perf_counter()
    child.start()
    sender.close()
    try:
        record: Record = receiver.recv()
        return record
    except EOFError:
        child.join()
        is_late = child.exitcode == -signal.SIGXCPU
        state = "time limit" if is_late else "crashed"
        message = f"exit status {child.exitcode}"
    finally:
        child.kill()
        child.join()
    seconds = round(time.perf_counter() - clock, 2)
    return {"name": name, "state": state, "message": message, "seconds": seconds}


def _load_libraries(arguments: argparse.Namespace) -> None:
    """Imports the libraries, and by one small model the parts that they import on first use."""
    for library in LIBRARIES:
        importlib.import_module(library)
    interpreted = argparse.Namespace(
        **vars(arguments) | {"compiled": False, "torch_compile": False}
    )
    check(cases()["transformers:bert"], interpreted)


def _child(name: str, arguments: argparse.Namespace, sender: Any) -> None:
    limit = int(arguments.limit + time.process_time()) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    with Path(os.devnull).open("w") as discarded, contextlib.redirect_stdout(discarded):
        sender.send(check(cases()[name], arguments))


def selected(names: str, every: Iterable[str]) -> list[str]:
    """Returns the names of cases that contain one of these words, or all of them; a word with
    a final `$` is the end of a name."""
    words = [word for word in names.split(",") if word]
    padded = {name: f"{name}$" for name in every}
    return [n for n, text in padded.items() if not words or any(w in text for w in words)]


def run_all(names: Sequence[str], arguments: argparse.Namespace) -> list[Record]:
    """Returns the records of models in order, and writes them to the file of results."""
    records: dict[str, Record] = {}
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        ThreadPoolExecutor(arguments.jobs) as pool,
    ):
        bar = progress.add_task("models", total=len(names))
        for record in pool.map(lambda name: run_child(name, arguments), names):
            records[record["name"]] = record
            progress.advance(bar)
            _write(arguments.output, list(records.values()))
    return list(records.values())


def _write(file: Path, records: list[Record]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(records, indent=1) + "\n")


def table(records: Sequence[Record]) -> Table:
    """Returns the state and the time of each model."""
    result = Table("model", "exported", "imported", "correct", box=None, header_style="bold")
    result.add_column("time", justify="right")
    result.add_column("message", overflow="ellipsis", no_wrap=True)
    for record in records:
        marks = ["yes" if mark else "no" for mark in reached(record["state"])]
        message = record["message"].splitlines()[0] if record["message"] else ""
        result.add_row(record["name"], *marks, f"{record['seconds']:.1f} s", message)
    return result


def reached(state: str) -> tuple[bool, bool, bool]:
    """Returns whether a model in this state was exported, imported and correct."""
    index = STATES.index(state) if state in STATES else -1
    return (index > STATES.index("not exported"), index > STATES.index("not imported"), index == 5)


def summary(records: Sequence[Record]) -> str:
    """Returns the counts of models by state, and the share of exported models that are correct."""
    counts = Counter(record["state"] for record in records)
    exported = sum(reached(record["state"])[0] for record in records)
    share = counts["correct"] / exported if exported else 0.0
    text = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    return f"{len(records)} models: {text}; {share:.1%} of {exported} exported models are correct"


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", default="", help="words separated by commas: a part of the name")
    parser.add_argument("--list", action="store_true", help="print the names and exit")
    parser.add_argument("--compiled", action="store_true", help="compile instead of interpreting")
    parser.add_argument("--onnx", action="store_true", help="import torch's ONNX export")
    parser.add_argument("--torch-compile", action="store_true", help="run by torch.compile")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds of processor time per model"
    )
    parser.add_argument("--jobs", type=int, default=1, help="child processes at a time")
    return parser.parse_args(arguments)


def main() -> None:
    arguments = parse_arguments()
    every = cases()
    names = selected(arguments.names, every)
    if arguments.list:
        print("\n".join(names))
        return
    if arguments.onnx and importlib.util.find_spec("onnxscript") is None:
        print("skipped: torch.onnx.export requires onnxscript: pip install onnxscript")
        return
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    _load_libraries(arguments)
    records = run_all(names, arguments)
    console = Console(width=160)
    console.print(table(records))
    console.print(summary(records))


if __name__ == "__main__":
    main()
