"""The kernels of a program for the explorer: which ops each came from, its text and its time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.backend.compile import compile as compiled
from structir.backend.outline import Outline, outline, outline_of
from structir.backend.profile import KernelTime
from structir.backend.source import origins
from structir.errors import StructIRError
from structir.interpret.arguments import random_arguments
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.tools.explorer.program import FILE

PLACE = re.compile(rf" at {FILE}:(\d+):\d+")
AMONG = (2, 3, 4, 5)  # sizes of symbolic dims that nobody states
Data = dict[str, Any]


@attrs.frozen
class Timed:
    """What is asked of a run that tells times."""

    sizes: Mapping[str, int]
    function: str
    repeat: int = 20
    threads: int | None = None


def kernel_data(module: IRModule, timed: Timed | None = None) -> Data:
    """The kernels of every function that the explorer has read; with times if they are wanted."""
    names = [name for name, value in module.functions.items() if isinstance(value, Function)]
    if timed is None:
        return {"functions": {name: _told(*_outline(module, name), {}) for name in names}}
    entry: Any = module[timed.function]
    executable = compiled(module, num_threads=timed.threads)
    arguments = random_arguments(entry, 0, timed.sizes, among=AMONG)
    profile = executable.profile(*arguments, name=timed.function, repeat=timed.repeat)
    times = {id(kernel.text): kernel for kernel in profile.kernels}
    shapes = {p.name: _shape(a) for p, a in zip(entry.params, arguments, strict=True)}
    return {
        "functions": {name: _told(outline_of(executable, name), "", times) for name in names},
        "seconds": profile.seconds,
        "entry": timed.function,
        "shapes": shapes,
    }


def _outline(module: IRModule, name: str) -> tuple[Outline, str]:
    """The kernels of a function, or why there are none to show."""
    try:
        return outline(module, name), ""
    except StructIRError as error:
        return Outline((), ()), str(error)


def _told(found: Outline, failure: str, times: Mapping[int, KernelTime]) -> Data:
    kernels = []
    for each in found.kernels:
        kernel: Data = {
            "kind": each.group.kind,
            "lines": list(dict.fromkeys(_lines(each.text.origins))),
            "ops": [PLACE.sub("", op) for op in origins(each.text.origins)],
            "source": each.source,
        }
        if each.shown is not None:
            kernel["shown"] = each.shown
        time = times.get(id(each.text))
        if time is not None:
            kernel |= {"seconds": time.seconds, "runs": time.runs}
            kernel |= {"gigaflops": time.gigaflops, "gigabytes": time.gigabytes}
        kernels.append(kernel)
    return {"kernels": kernels, "decisions": _decisions(found), "failure": failure}


def _decisions(found: Outline) -> list[list[Any]]:
    """Why a producer was or was not put into one kernel with its reader, by their lines."""
    told: dict[tuple[int, int, str], None] = {}
    for producer, reader, reason in found.decisions:
        for one in _lines((producer,)):
            told |= {(one, other, reason): None for other in _lines((reader,)) if other != one}
    return [list(each) for each in told]


def _lines(places: tuple[str, ...]) -> Iterator[int]:
    for place in places:
        match = PLACE.search(place)
        if match is not None:
            yield int(match[1])


def _shape(value: Any) -> list[int] | None:
    return list(value.shape) if hasattr(value, "shape") else None
