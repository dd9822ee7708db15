"""A kernel for one direction of an LSTM whose hidden state is quantized at every step."""

from __future__ import annotations

from functools import cache
from textwrap import indent

from structir.frontend.recurrent_kernels import CELLS, step_source
from structir.ir.kernel import Kernel
from structir.printer.parser.parser import parse

SOURCE = """\
@I.kernel
def {name}(
    gates: R.Tensor(("steps", "batch", "4 * hidden"), "float32"),
    last_start: R.Tensor(("batch", "hidden"), "float32"),
    cell_start: R.Tensor(("batch", "hidden"), "float32"),
    weight: R.Tensor(("hidden", "4 * hidden"), "int8"),
    sums: R.Tensor(("4 * hidden",), "int32"),
    scale: R.Tensor(("4 * hidden",), "float32"),
    bias: R.Tensor(("4 * hidden",), "float32"),
    hidden_states: R.Tensor(("steps", "batch", "hidden"), "float32"),
    last: R.Tensor(("batch", "hidden"), "float32"),
    cell: R.Tensor(("batch", "hidden"), "float32"),
):
    rows = T.zeros((batch, 4 * hidden), "float32")
    products = T.zeros((4 * hidden,), "int32")
    for b in range(batch):
        for j in range(hidden):
            last[b, j] = last_start[b, j]
            cell[b, j] = cell_start[b, j]
    for t in range({steps}):
        low = T.float32(0.0)
        high = T.float32(0.0)
        for b in range(batch):
            for j in range(hidden):
                low = min(low, last[b, j])
                high = max(high, last[b, j])
        hidden_scale = (high - low) / 255.0
        if hidden_scale == 0.0:
            hidden_scale = T.float32(1.0)
        zero_point = min(max(T.round((0.0 - low) / hidden_scale), 0.0), 255.0)
        for b in range(batch):
            for j in range(4 * hidden):
                products[j] = T.int32(0) - T.int32(zero_point) * sums[j]
            for k in range(hidden):
                level = T.round(last[b, k] / hidden_scale) + zero_point
                quantized = T.int32(min(max(level, 0.0), 255.0))
                for j in range(4 * hidden):
                    products[j] = products[j] + quantized * T.int32(weight[k, j])
            for j in range(4 * hidden):
                rows[b, j] = T.float32(products[j]) * (hidden_scale * scale[j])
{step}
"""


@cache
def quantised_lstm_kernel(backwards: bool) -> Kernel:
    """Returns the kernel (input gates, states, weight, and per gate its sum, scale and bias) ->
    hidden states of all steps and the final states."""
    name = "quantised_lstm_backwards" if backwards else "quantised_lstm"
    steps = "steps - 1, -1, -1" if backwards else "steps"
    step = indent(step_source(CELLS["lstm"], "hidden").rstrip(), " " * 12)
    kernel = parse(SOURCE.format(name=name, steps=steps, step=step), f"{name}.py").functions[name]
    assert isinstance(kernel, Kernel)
    return kernel
