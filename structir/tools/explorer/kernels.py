"""The kernels of a program as JSON data: their ops, source, times and fusion decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.interpret.arguments import random_arguments
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.runtime.outline import KernelOutline, Outline, outline, outline_of
from structir.runtime.profile import KernelTime
from structir.runtime.source import origins
from structir.targets.compile import compile as compiled
from structir.tools.explorer.graph import FILE

LOCATION = re.compile(rf" at {FILE}:(\d+):\d+")
DEFAULT_SIZES = (2, 3, 4, 5)  # of symbolic dims that the options do not set
Data = dict[str, Any]


@attrs.frozen
class ProfileOptions:
    """The function to profile, the sizes of its symbolic dims, and the number of calls."""

    sizes: Mapping[str, int]
    function: str
    repeat: int = 20
    threads: int | None = None


def kernel_data(module: IRModule, profile: ProfileOptions | None = None) -> Data:
    """Returns the kernels of every function of a parsed module; with times if profiled."""
    names = [name for name, value in module.functions.items() if isinstance(value, Function)]
    if profile is None:
        return {"functions": {name: _function_data(*_outline(module, name), {}) for name in names}}
    entry: Any = module[profile.function]
    executable = compiled(module, num_threads=profile.threads)
    arguments = random_arguments(entry, 0, profile.sizes, among=DEFAULT_SIZES)
    times = executable.profile(*arguments, name=profile.function, repeat=profile.repeat)
    by_kernel = {id(kernel.text): kernel for kernel in times.kernels}
    functions = {
        name: _function_data(outline_of(executable, name), "", by_kernel) for name in names
    }
    return {
        "functions": functions,
        "seconds": times.seconds,
        "entry": profile.function,
        "shapes": {p.name: _shape(a) for p, a in zip(entry.params, arguments, strict=True)},
    }


def _outline(module: IRModule, name: str) -> tuple[Outline, str]:
    """Returns the kernels of a function, or the message of the error that prevents them."""
    try:
        return outline(module, name), ""
    except StructIRError as error:
        return Outline((), ()), str(error)


def _function_data(
    function_outline: Outline, failure: str, times: Mapping[int, KernelTime]
) -> Data:
    kernels = [
        _kernel_data(kernel, times.get(id(kernel.text))) for kernel in function_outline.kernels
    ]
    decisions = _fusion_decisions(function_outline)
    return {"kernels": kernels, "decisions": decisions, "failure": failure}


def _kernel_data(kernel: KernelOutline, time: KernelTime | None) -> Data:
    data: Data = {
        "kind": kernel.group.kind,
        "lines": list(dict.fromkeys(_lines(kernel.text.origins))),
        "ops": [LOCATION.sub("", op) for op in origins(kernel.text.origins)],
        "source": kernel.source,
    }
    if kernel.shown is not None:
        data["script"] = kernel.shown
    if time is not None:
        data |= {"seconds": time.seconds, "runs": time.runs}
        data |= {"gigaflops": time.gigaflops, "gigabytes": time.gigabytes}
    return data


def _fusion_decisions(function_outline: Outline) -> list[list[Any]]:
    """Returns producer line, user line and reason of each decision to fuse two ops or not."""
    decisions: dict[tuple[int, int, str], None] = {}
    for producer, user, reason in function_outline.decisions:
        for line in _lines((producer,)):
            user_lines = [user_line for user_line in _lines((user,)) if user_line != line]
            decisions |= {(line, user_line, reason): None for user_line in user_lines}
    return [list(decision) for decision in decisions]


def _lines(locations: tuple[str, ...]) -> Iterator[int]:
    for location in locations:
        match = LOCATION.search(location)
        if match is not None:
            yield int(match[1])


def _shape(value: Any) -> list[int] | None:
    return list(value.shape) if hasattr(value, "shape") else None
