"""Kernels of recurrent layers: one kernel runs all time steps of one direction."""

from __future__ import annotations

import re
from functools import cache
from textwrap import indent

import attrs

from structir.ir.kernel import Kernel
from structir.printer.parser.parser import parse

DTYPES = frozenset({"float32", "float64"})
MIN_COLUMNS = 128  # of states that threads share in each step, at multiples of
PART_MULTIPLE = 32  # columns; gates of other widths have packed weights of their own
MANY_SEQUENCES = 8  # unless there are so many sequences: they need no states of other threads


@attrs.frozen
class RecurrentCell:
    """A recurrent cell: its gates and states, and the kernel source of one time step."""

    gates: int
    states: tuple[str, ...]
    products: int  # gates whose pre-activation contains a product with the unchanged state
    # Kernel sources of loops over the elements `j` of the states of sequence `b`, which they set.
    # Short chains of functions overlap with those of the next elements, a long chain does not; and
    # LLVM keeps the constants of one function out of the loop, but not those of several.
    loops: tuple[str, ...]


def _sigmoid(name: str, gate: int) -> str:
    """Returns the kernel source of a sigmoid gate."""
    return f"{name} = 1.0 / (1.0 + T.exp(-({_input(gate)} + {_product_of(gate)})))\n"


def _tanh(name: str, gate: int) -> str:
    return f"{name} = T.tanh({_input(gate)} + {_product_of(gate)})\n"


def _input(gate: int) -> str:
    return f"gates[t, b, {gate} * hidden + j]"


def _product_of(gate: int) -> str:
    """Returns the kernel source of the product of the state with the weights of a gate."""
    return f"(rows[b, {gate} * hidden + j] + bias[{gate} * hidden + j])"


def _stored(gate: int) -> str:
    """Returns the kernel source of a gate that a loop of its own stores in place of its product."""
    return f"rows[b, {gate} * hidden + j]"


def _stored_sigmoid(gate: int) -> str:
    return _sigmoid(_stored(gate), gate)


def _mixed(target: str, state: str) -> str:
    return f"{target} = (1.0 - update) * candidate + update * {state}\n"


LAST = "last[b, j]"
CELLS = {
    "rnn": RecurrentCell(1, ("last",), 1, (_tanh("last[b, j]", 0),)),
    "lstm": RecurrentCell(
        4,
        ("last", "cell"),
        4,
        (
            _stored_sigmoid(0),
            _stored_sigmoid(2),
            _tanh("candidate", 3)
            + f"cell[b, j] = {_stored(2)} * cell[b, j] + {_stored(0)} * candidate\n",
            _stored_sigmoid(1),
            f"last[b, j] = {_stored(1)} * T.tanh(cell[b, j])\n",
        ),
    ),
    "gru": RecurrentCell(
        3,
        ("last",),
        3,
        (
            _sigmoid("reset", 1) + f"rows[b, 2 * hidden + j] = reset * {_product_of(2)}\n",
            _stored_sigmoid(0),
            f"candidate = T.tanh({_input(2)} + rows[b, 2 * hidden + j])\n"
            f"update = {_stored(0)}\n" + _mixed(LAST, LAST),
        ),
    ),
    # here the reset gate is applied to the state before the product
    "gru_reset_before": RecurrentCell(
        3,
        ("last",),
        2,
        (
            _stored_sigmoid(0),
            _tanh("candidate", 2) + f"update = {_stored(0)}\n" + _mixed(LAST, LAST),
        ),
    ),
}


@attrs.frozen
class _Products:
    """Kernel source of products of states and the weights of some gates, in parts."""

    cell: RecurrentCell
    is_together: bool  # whether parts read the packed weights of all gates, or those of each gate

    @property
    def width(self) -> str:
        """The columns of all gates."""
        return f"{self.cell.gates} * hidden"

    def of_part(self, left: str, gate: int) -> str:
        """Returns the source for the columns of a part, of all sequences, and one gate."""
        return self._source(left, "0", "batch", gate, "low", "high - low", self.is_together)

    def of_sequences(self, left: str, gates: range) -> str:
        """Returns the source for all columns of the sequences of a part: one product, whose panels
        have one end, if it is of all gates."""
        if self.cell.products == self.cell.gates:
            count = "stop - first"
            return self._source(left, "first", count, 0, "0", self.width, True) if gates else ""
        return "".join([self._of_gate(left, gate) for gate in gates])

    def _of_gate(self, left: str, gate: int) -> str:
        return self._source(left, "first", "stop - first", gate, "0", "hidden", False)

    def _source(
        self, left: str, row: str, count: str, gate: int, column: str, columns: str, together: bool
    ) -> str:
        start, all_columns = f"{gate} * hidden", "hidden"
        first, column = column, f"{start} + {column}"
        if together:
            start, first, all_columns = "0", column, self.width
        out = f"rows.flat[{row} * {self.width} + {column}]"
        places = f"{left}.flat[{row} * hidden], weight.flat[{start}], {out}"
        steps = f"{self.width}, 1, {self.width}"
        integers = f"{count}, {columns}, hidden, hidden, 1, {all_columns}, {first}, {steps}"
        return f"T.column_product({places}, {integers})\n"


def _product(left: str, first_gate: str, columns: str, width: str, ragged: bool) -> str:
    """Returns kernel source that sets `rows`, from a gate on, to the product of the states of the
    sequences of a part and the weights of some gates."""
    integers = f"{columns}, hidden, hidden, 1, {width}, 1, {width}"
    state, row, count = "hidden * low", f"{width} * low + ", "high - low"
    if ragged:
        state, row, count = "0", "", "batch"
    places = f"{left}.flat[{state}], weight.flat[{first_gate}], rows.flat[{row}{first_gate}]"
    return f"T.tiled_product({places}, {count}, {integers})\n"


def _reset(width: str, ragged: bool) -> str:
    """Returns kernel source of the product with the states to which the reset gate is applied."""
    return f"""\
for b in range({_sequences(ragged)}):
    for j in range(hidden):
        {_sigmoid("reset", 1)}\
        reset_state[b, j] = reset * last[b, j]
{_product("reset_state", "2 * hidden", "hidden", width, ragged)}"""


def _sequences(ragged: bool) -> str:
    """Returns the range of the sequences: those of a part, which threads share. Ragged kernels
    leave elements as they are initialized, which kernels in parts do not have."""
    return "batch" if ragged else "low, high"


@cache
def recurrent_kernel(
    name: str, dtype: str, backwards: bool, ragged: bool = False, hidden: int | None = None
) -> Kernel:
    """Returns the kernel of a cell over all time steps: (input gates, states, weight, bias) ->
    hidden states of all steps and the final states.

    A `ragged` kernel takes the length of each sequence as an additional first operand. With a
    constant size `hidden`, weights that are constants are packed once, at compile time.
    """
    suffixes = ["backwards"] * backwards + ["ragged"] * ragged + [dtype]
    full_name = "_".join([name, *suffixes, *([] if hidden is None else [str(hidden)])])
    cell = CELLS[name]
    if hidden is not None and hidden >= MIN_COLUMNS and not ragged:
        source = _source_in_columns(cell, full_name, dtype, backwards, hidden)
    else:
        source = _source(cell, full_name, dtype, backwards, ragged)
    if hidden is not None:
        source = _with_size(source, hidden)
    kernel = parse(source, f"{full_name}.py").functions[full_name]
    assert isinstance(kernel, Kernel)
    return kernel


def _with_size(source: str, hidden: int) -> str:
    """Returns kernel source with a constant in place of the size `hidden`."""
    products = re.sub(r"(\d) \* hidden\b", lambda gates: str(int(gates[1]) * hidden), source)
    constants = re.sub(r"\bhidden\b", str(hidden), products)
    return re.sub(r'"(\d+)"', r"\1", constants)  # sizes in annotations


def _source(cell: RecurrentCell, name: str, dtype: str, backwards: bool, ragged: bool) -> str:
    width = f"{cell.gates} * hidden"
    applies_reset = cell.products < cell.gates
    lines = [] if ragged else ["low, high = T.part(batch)"]
    lines.insert(0, f'rows = T.zeros((batch, {width}), "{dtype}")')
    lines[:0] = [f'reset_state = T.zeros((batch, hidden), "{dtype}")'] if applies_reset else []
    steps = "steps - 1, -1, -1" if backwards else "steps"
    step = step_source(cell, "hidden")
    if ragged:
        step = "if t < lengths[b]:\n" + indent(step, " " * 4)
    body = f"""\
{_start(cell, _sequences(ragged), "hidden")}\
for t in range({steps}):
    {_product("last", "0", f"{cell.products} * hidden", width, ragged)}\
{indent(_reset(width, ragged), " " * 4) if applies_reset else ""}\
    for b in range({_sequences(ragged)}):
{indent(step, " " * 8)}"""
    return _function(cell, name, dtype, [*lines, body], ragged)


def _source_in_columns(
    cell: RecurrentCell, name: str, dtype: str, backwards: bool, hidden: int
) -> str:
    """Returns the source of a kernel whose parts are columns of the states in each time step, or
    sequences if there are many; one part is all columns of all sequences.

    A step in columns reads the whole states before it in `hidden_states`, which all parts have
    written together.
    """
    products = _Products(cell, cell.products == cell.gates and hidden % PART_MULTIPLE == 0)
    in_columns = f"batch < {MANY_SEQUENCES} and high - low < hidden"
    if cell.products < cell.gates:
        loop = _loop_in_halves(cell, products, in_columns, backwards)
    else:
        loop = f"""\
for t in T.synchronized({"steps - 1, -1, -1" if backwards else "steps"}):
    if {in_columns}:
{indent(_step_in_columns(cell, products, backwards), " " * 8)}\
    else:
{indent(_step_of_sequences(cell, products), " " * 8)}"""
    body = f"""\
before = T.empty((batch, hidden), "{dtype}")
rows = T.empty((batch, {products.width}), "{dtype}")
low, high = T.part(hidden)
{_start(cell, "batch", "low, high")}\
{loop}"""
    return _function(cell, name, dtype, [body])


def _step_in_columns(cell: RecurrentCell, products: _Products, backwards: bool) -> str:
    """Returns kernel source that updates the columns of a part."""
    columns = [products.of_part("before", gate) for gate in range(cell.gates)]
    return f"""\
{_copy_states_before(backwards)}\
{"".join(columns)}\
for b in range(batch):
{indent(step_source(cell, "low, high"), " " * 4)}"""


def _step_of_sequences(cell: RecurrentCell, products: _Products) -> str:
    """Returns kernel source that updates the sequences of a part: those that correspond to its
    columns."""
    first, stop = "max(low * batch // hidden, 0)", "min(high * batch // hidden, batch)"
    sequences = f"{first}, {stop}"
    reset = f"""\
for b in range({sequences}):
    for j in range(hidden):
        {_sigmoid("reset", 1)}\
        before[b, j] = reset * last[b, j]
{products.of_sequences("before", range(cell.products, cell.gates))}"""
    return f"""\
first = {first}
stop = {stop}
{products.of_sequences("last", range(cell.products))}\
{reset if cell.products < cell.gates else ""}\
for b in range({sequences}):
{indent(step_source(cell, "hidden"), " " * 4)}"""


def _loop_in_halves(
    cell: RecurrentCell, products: _Products, in_columns: str, backwards: bool
) -> str:
    """Returns the source of the loop of a cell whose reset gate is applied before the product: the
    parts compute all columns of the reset states, in `last`, before they multiply them. The
    iteration after the last step sets `last` to the final states.
    """
    step = "k // 2, min(k // 2 + 1, steps)"
    if backwards:
        step = "max(steps - 1 - k // 2, 0), steps - k // 2"
    final = "0" if backwards else "steps - 1"
    return f"""\
for k in T.synchronized(2 * steps + 1):
    for t in range({step}):
        if {in_columns}:
{indent(_copy_states_before(backwards), " " * 12)}\
            if k % 2 == 0:
{indent(products.of_part("before", 1), " " * 16)}\
                for b in range(batch):
                    for j in range(low, high):
                        {_sigmoid("reset", 1)}\
                        last[b, j] = reset * before[b, j]
            else:
{indent(products.of_part("before", 0) + products.of_part("last", 2), " " * 16)}\
                for b in range(batch):
                    for j in range(low, high):
{indent(_sigmoid("update", 0) + _tanh("candidate", 2), " " * 24)}\
                        {_mixed("hidden_states[t, b, j]", "before[b, j]")}\
        elif k % 2 == 1:
{indent(_step_of_sequences(cell, products), " " * 12)}\
    if {in_columns} and k == 2 * steps and steps > 0:
        for b in range(batch):
            for j in range(low, high):
                last[b, j] = hidden_states[{final}, b, j]"""


def _copy_states_before(backwards: bool) -> str:
    """Returns kernel source that copies the states before a step."""
    first, after = ("steps - 1", "t + 1") if backwards else ("0", "t - 1")
    return f"""\
if t == {first}:
{indent(_copy("last_start[b, j]"), " " * 4)}\
else:
{indent(_copy(f"hidden_states[{after}, b, j]"), " " * 4)}"""


def _copy(source: str) -> str:
    """Returns kernel source that copies states."""
    return f"""\
for b in range(batch):
    for j in range(hidden):
        before[b, j] = {source}
"""


def _start(cell: RecurrentCell, sequences: str, columns: str) -> str:
    """Returns kernel source that sets the states to those before the first step."""
    starts = "\n".join(f"        {s}[b, j] = {s}_start[b, j]" for s in cell.states)
    return f"for b in range({sequences}):\n    for j in range({columns}):\n{starts}\n"


def step_source(cell: RecurrentCell, columns: str) -> str:
    """Returns kernel source that updates some columns of the states of sequence `b`."""
    loops = (*cell.loops, "hidden_states[t, b, j] = last[b, j]\n")
    return "".join([f"for j in range({columns}):\n{indent(body, ' ' * 4)}" for body in loops])


def _function(
    cell: RecurrentCell, name: str, dtype: str, body: list[str], ragged: bool = False
) -> str:
    """Returns the source of a kernel with these statements."""
    width, state = f"{cell.gates} * hidden", '"batch", "hidden"'
    shapes = {"gates": f'"steps", "batch", "{width}"'}
    shapes |= {f"{s}_start": state for s in cell.states}
    shapes |= {"weight": f'"hidden", "{width}"', "bias": f'"{width}",'}
    shapes |= {"hidden_states": f'"steps", {state}', **dict.fromkeys(cell.states, state)}
    dtypes = {"lengths": "int64"}
    if ragged:
        shapes = {"lengths": '"batch",', **shapes}
    params = ", ".join(f'{n}: R.Tensor(({s}), "{dtypes.get(n, dtype)}")' for n, s in shapes.items())
    return f"@I.kernel\ndef {name}({params}):\n{indent(chr(10).join(body), ' ' * 4)}"
