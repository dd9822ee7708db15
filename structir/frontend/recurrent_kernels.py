"""Kernels of recurrent layers: one kernel runs all time steps of one direction."""

from __future__ import annotations

from functools import cache
from textwrap import indent

import attrs

from structir.ir.kernel import Kernel
from structir.printer.parser.parser import parse

DTYPES = frozenset({"float32", "float64"})


@attrs.frozen
class RecurrentCell:
    """A recurrent cell: its gates and states, and the kernel source of one time step."""

    gates: int
    states: tuple[str, ...]
    products: int  # gates whose pre-activation contains a product with the unchanged state
    source: str  # kernel source: updates element `j` of the states of sequence `b`


def _sigmoid(name: str, gate: int) -> str:
    """Returns the kernel source of a sigmoid gate."""
    index = f"{gate} * hidden + j" if gate else "j"
    return f"{name} = 1.0 / (1.0 + T.exp(-(gates[t, b, {index}] + rows[{index}])))\n"


def _tanh(name: str, gate: int) -> str:
    index = f"{gate} * hidden + j" if gate else "j"
    return f"{name} = T.tanh(gates[t, b, {index}] + rows[{index}])\n"


MIXED = "last[b, j] = (1.0 - update) * candidate + update * last[b, j]\n"
CELLS = {
    "rnn": RecurrentCell(1, ("last",), 1, _tanh("last[b, j]", 0)),
    "lstm": RecurrentCell(
        4,
        ("last", "cell"),
        4,
        _sigmoid("update", 0)
        + _sigmoid("output_gate", 1)
        + _sigmoid("forget", 2)
        + _tanh("candidate", 3)
        + "cell[b, j] = forget * cell[b, j] + update * candidate\n"
        + "last[b, j] = output_gate * T.tanh(cell[b, j])\n",
    ),
    "gru": RecurrentCell(
        3,
        ("last",),
        3,
        _sigmoid("update", 0)
        + _sigmoid("reset", 1)
        + "input_part = gates[t, b, 2 * hidden + j]\n"
        + "candidate = T.tanh(input_part + reset * rows[2 * hidden + j])\n"
        + MIXED,
    ),
    # here the reset gate is applied to the state before the product
    "gru_reset_before": RecurrentCell(
        3, ("last",), 2, _sigmoid("update", 0) + _tanh("candidate", 2) + MIXED
    ),
}
BATCH_TILE = 4  # sequences of a batch that share one pass over the weights
UNROLL_FACTOR = 4  # products per load and store of an accumulator


def _products(sums: list[str], states: list[str], first_gate: str, count: str) -> str:
    """Returns kernel source that adds the products of states (index `k`) and the weights of `count`
    gates to sums (index `j`), in the order of the terms."""
    index = f"{first_gate}j"
    terms = range(UNROLL_FACTOR)
    loads = [f"x{n}_{q} = {x.format(k=f'k + {q}')}" for n, x in enumerate(states) for q in terms]
    weights = [f"w{q} = weight[k + {q}, {index}]" for q in terms]
    accumulate = [
        f"{total} = {' + '.join([total, *[f'x{n}_{q} * w{q}' for q in terms]])}"
        for n, total in enumerate(sums)
    ]
    remainder = [
        f"{t} += {x.format(k='k')} * weight[k, {index}]" for t, x in zip(sums, states, strict=True)
    ]
    loop = f"    for j in range({count}):"
    lines = [
        f"for k in range(0, hidden - {UNROLL_FACTOR - 1}, {UNROLL_FACTOR}):",
        *_indent(loads),
        loop,
    ]
    lines += [*_indent([*weights, *accumulate], 2)]
    lines += [
        f"for k in range({UNROLL_FACTOR} * (hidden // {UNROLL_FACTOR}), hidden):",
        loop,
        *_indent(remainder, 2),
    ]
    return "\n".join(lines) + "\n"


def _indent(lines: list[str], depth: int = 1) -> list[str]:
    return ["    " * depth + line for line in lines]


RESET = f"""\
for j in range(hidden):
    {_sigmoid("reset", 1)}\
    reset_state[j] = reset * last[b, j]
{_products(["rows[2 * hidden + j]"], ["reset_state[{k}]"], "2 * hidden + ", "hidden")}"""


@cache
def recurrent_kernel(name: str, dtype: str, backwards: bool, ragged: bool = False) -> Kernel:
    """Returns the kernel of a cell over all time steps: (input gates, states, weight, bias) ->
    hidden states of all steps and the final states.

    A `ragged` kernel takes the length of each sequence as an additional first operand.
    """
    cell = CELLS[name]
    full_name = f"{name}_backwards" if backwards else name
    full_name = f"{full_name}_ragged" if ragged else full_name
    module = parse(
        _source(cell, f"{full_name}_{dtype}", dtype, backwards, ragged), f"{full_name}.py"
    )
    kernel = module.functions[f"{full_name}_{dtype}"]
    assert isinstance(kernel, Kernel)
    return kernel


def _source(cell: RecurrentCell, name: str, dtype: str, backwards: bool, ragged: bool) -> str:
    width, product_width = f"{cell.gates} * hidden", f"{cell.products} * hidden"
    state = '"batch", "hidden"'
    shapes = {"gates": f'"steps", "batch", "{width}"'}
    shapes |= {f"{s}_start": state for s in cell.states}
    shapes |= {"weight": f'"hidden", "{width}"', "bias": f'"{width}",'}
    shapes |= {"hidden_states": f'"steps", {state}', **dict.fromkeys(cell.states, state)}
    dtypes = {"lengths": "int64"}
    if ragged:
        shapes = {"lengths": '"batch",', **shapes}
    params = ", ".join(f'{n}: R.Tensor(({s}), "{dtypes.get(n, dtype)}")' for n, s in shapes.items())
    applies_reset = cell.products < cell.gates
    lines = [f'rows = T.zeros((batch, {width}), "{dtype}")']
    lines += [f'reset_state = T.zeros((hidden,), "{dtype}")'] if applies_reset else []
    starts = "\n".join(f"        {s}[b, j] = {s}_start[b, j]" for s in cell.states)
    steps = "steps - 1, -1, -1" if backwards else "steps"
    tile = [f"first + {n}" for n in range(BATCH_TILE)]
    tile_products, single_products = [
        _products(
            [f"rows[{b}, j]" for b in sequences],
            [f"last[{b}, {{k}}]" for b in sequences],
            "",
            product_width,
        )
        for sequences in (tile, ["b"])
    ]
    step = f"""\
{RESET if applies_reset else ""}\
for j in range(hidden):
{indent(cell.source, " " * 4)}\
for j in range(hidden):
    hidden_states[t, b, j] = last[b, j]
""".replace("rows[", "rows[b, ")
    if ragged:
        step = "if t < lengths[b]:\n" + indent(step, " " * 4)
    body = f"""\
for b in range(batch):
    for j in range(hidden):
{starts}
for t in range({steps}):
    for b in range(batch):
        for j in range({width}):
            rows[b, j] = bias[j]
    for first in range(0, batch - {BATCH_TILE - 1}, {BATCH_TILE}):
{indent(tile_products, " " * 8)}\
    for b in range({BATCH_TILE} * (batch // {BATCH_TILE}), batch):
{indent(single_products, " " * 8)}\
    for b in range(batch):
{indent(step, " " * 8)}"""
    text = indent("\n".join([*lines, body]), " " * 4)
    return f"@I.kernel\ndef {name}({params}):\n{text}"
