"""Mappings of the kernels of recurrent layers to LSTM, GRU and RNN."""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from structir.export.onnx.kernels import Mapped, exports_kernels
from structir.frontend.recurrent_kernels import CELLS, DTYPES, recurrent_kernel
from structir.ir.expr import Tuple
from structir.ir.kernel import Kernel
from structir.ir.structural import structural_equal


@cache
def kernels() -> dict[str, tuple[str, str, bool, bool]]:
    """Returns the arguments of the kernels of recurrent layers by name: cell, dtype, reversal, and
    lengths per sequence."""
    combinations = product(CELLS, sorted(DTYPES), (False, True), (False, True))
    return {recurrent_kernel(*each).name: each for each in combinations}


@exports_kernels
def match_recurrent(kernel: Kernel) -> Mapped | None:
    if not kernel.name.startswith(tuple(CELLS)):
        return None
    name, _, size = kernel.name.rpartition("_")
    is_sized = size.isdecimal()
    arguments = kernels().get(name if is_sized else kernel.name)
    if arguments is None:
        return None
    expected = recurrent_kernel(*arguments, int(size) if is_sized else None)
    if not structural_equal(kernel, expected):
        return None
    cell, _, backwards, ragged = arguments
    return partial(recurrent, cell=cell, backwards=backwards, ragged=ragged)


def recurrent(exporter: Any, call: Any, cell: str, backwards: bool, ragged: bool) -> list[str]:
    """Writes all steps of one direction.

    The kernel receives the products of the input, so the weight of the input is the identity.
    """
    arguments = [n for a in call.args for n in (a.fields if isinstance(a, Tuple) else (a,))]
    names = [exporter.value(argument) for argument in arguments]
    lengths = names.pop(0) if ragged else ""
    gates, *states, weight, bias = names
    hidden = int(call.struct_info.fields[1].dims[1])
    width = CELLS[cell].gates * hidden
    dtype = np.dtype(call.struct_info.fields[0].dtype)
    first = exporter.graph.names.constant(np.array([0], np.int64))

    def emit(op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        result: list[str] = exporter.graph.emit(
            op_type, list(inputs), outputs, exporter.stem, **attributes
        )
        return result

    identity = exporter.graph.names.constant(np.eye(width, dtype=dtype)[None])
    (turned,) = emit("Transpose", weight, perm=[1, 0])
    (recurrence,) = emit("Unsqueeze", turned, first)
    no_bias = exporter.graph.names.constant(np.zeros(width, dtype))
    (joined,) = emit("Concat", no_bias, bias, axis=0)
    (both,) = emit("Unsqueeze", joined, first)
    starts = [emit("Unsqueeze", state, first)[0] for state in states]
    lengths = emit("Cast", lengths, to=6)[0] if ragged else ""  # int32
    y, *last = emit(
        cell.split("_")[0].upper(),
        *(gates, identity, recurrence, both, lengths),
        *starts,
        outputs=1 + len(states),
        hidden_size=hidden,
        direction="reverse" if backwards else "forward",
        linear_before_reset=1 if cell == "gru" else None,
    )
    second = exporter.graph.names.constant(np.array([1], np.int64))
    return [emit("Squeeze", y, second)[0], *[emit("Squeeze", each, first)[0] for each in last]]
