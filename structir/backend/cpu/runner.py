"""The plan runner: all kernels of a plan in one compiled call; and calls from Python into it.

`enter` is a function as CPython calls them. It reads arrays where NumPy keeps their facts, and
leaves all that is not plain to the Python function that it stands before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from numba import types

from structir.backend.cpu.atomics import atomic_set
from structir.backend.cpu.c_functions import c_function
from structir.backend.cpu.intrinsics import POINTERS, offset_by
from structir.backend.cpu.layouts import (
    ARRAY_DATA,
    ARRAY_DIMS,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_RANK,
    DENSE,
    OBJECT_TYPE,
    ROW,
    SPACE,
    STATE,
    TABLE,
    TUPLE_ITEMS,
    TUPLE_SIZE,
    WRITEABLE,
)
from structir.backend.cpu.native import call_c, call_kernel
from structir.backend.cpu.objects import built
from structir.backend.cpu.team import give_back, run_split, take
from structir.backend.math.options import vectorisable

Word = Any  # a 64-bit integer: a number, or the address of something
WORDS: Any = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
LOW_HALF = 0xFFFFFFFF


words_at: Any = POINTERS["int64"]
further: Any = offset_by


@vectorisable
def run_row(space: Word, number: Word, team: Word) -> Word:
    """Run one kernel of a program, by the team if there is one; not 0 where it failed."""
    place = space[SPACE.rows] + 8 * len(ROW) * number
    row = words_at(place)
    if team != 0 and row[ROW.chunk] > 0:
        return run_split(words_at(team), place, space[SPACE.stride], space[SPACE.threads])
    return call_kernel(row[ROW.code], row[ROW.table], row[ROW.low], row[ROW.high])


@vectorisable
def patch(space: Word) -> None:
    """Write the outside addresses of a space into its argument blocks, one for each thread."""
    patches, outside = words_at(space[SPACE.patches]), words_at(space[SPACE.outside])
    for worker in range(space[SPACE.threads]):
        arguments = words_at(space[SPACE.arguments] + 8 * space[SPACE.stride] * worker)
        for i in range(space[SPACE.patch_count]):
            arguments[patches[2 * i]] = outside[patches[2 * i + 1]]


@vectorisable
def run_rows(space: Word) -> Word:
    """Runs the kernels of a space whose argument blocks are complete; 0, or 1 + the row at which
    one failed."""
    team, own, failed = space[SPACE.team], space[SPACE.team], 0
    if team != 0 and not take(words_at(team)):
        own = 0
    for number in range(space[SPACE.row_count]):
        if run_row(space, number, own) != 0:
            failed = number + 1
            break
    if team != 0:
        give_back(words_at(team))
    return failed


def run_space(space: Word) -> Word:
    """Run the program of a space on the addresses that it holds, kernel by kernel; 0, or 1 + the
    row at which one failed."""
    patch(space)
    return run_rows(space)


@vectorisable
def is_dense(value: Word, table: Word, dtype: Word, rank: Word, flags: Word) -> Word:
    """Whether an object is an array of this dtype and rank whose flags are all set."""
    if value[OBJECT_TYPE] != table[TABLE.array_type] or value[ARRAY_DTYPE] != dtype:
        return False
    if (value[ARRAY_RANK] & LOW_HALF) != rank:
        return False
    return (value[ARRAY_FLAGS] & flags) == flags


@vectorisable
def same_dims(value: Word, dims: Word, rank: Word) -> Word:
    """Whether an array has these sizes."""
    found = words_at(value[ARRAY_DIMS])
    for axis in range(rank):  # noqa: SIM110 (compiled: no generators)
        if found[axis] != dims[axis]:
            return False
    return True


@vectorisable
def fits_space(args: Word, table: Word, space: Word) -> Word:
    """Whether the arguments have the sizes that a space was made for."""
    forms, dims = words_at(table[TABLE.forms]), words_at(space[SPACE.dims])
    place = 0
    for k in range(table[TABLE.inputs]):
        rank = forms[2 * k + 1]
        if not same_dims(words_at(args[k]), further(dims, place), rank):
            return False
        place += rank
    return True


@vectorisable
def found_space(args: Word, table: Word) -> Word:
    """The address of a free space for the sizes of the arguments, moved to the front; else 0."""
    before, at = 0, table[TABLE.first_space]
    while at != 0:
        space = words_at(at)
        if space[SPACE.busy] == 0 and fits_space(args, table, space):
            if before != 0:
                words_at(before)[SPACE.next] = space[SPACE.next]
                space[SPACE.next] = table[TABLE.first_space]
                table[TABLE.first_space] = at
            return at
        before, at = at, space[SPACE.next]
    return 0


@vectorisable
def overlaps(args: Word, table: Word, out: Word, size: Word, space: Word) -> Word:
    """Whether the memory of a result meets that of an argument."""
    low = out[ARRAY_DATA]
    sizes = words_at(space[SPACE.input_bytes])
    for k in range(table[TABLE.inputs]):
        start = words_at(args[k])[ARRAY_DATA]
        if start < low + size and low < start + sizes[k]:
            return True
    return False


@vectorisable
def run_all(space: Word) -> Word:
    """Run what a space is for: steps, or its rows; not 0 where that does not come to its end."""
    patch(space)
    if space[SPACE.code] == 0:
        return run_rows(space)
    words_at(space[SPACE.state])[STATE.at] = 0
    return call_c(space[SPACE.code], (space[SPACE.state],))


@vectorisable
def run_released(space: Word, table: Word) -> Word:
    """Run a space; long work lets other Python threads go on."""
    space[SPACE.busy] = 1
    state = 0
    if space[SPACE.long] != 0:
        state = call_c(table[TABLE.save_thread], ())
    status = run_all(space)
    if state != 0:
        call_c(table[TABLE.restore_thread], (state,))
    space[SPACE.busy] = 0
    return status


@vectorisable
def given_result(args: Word, table: Word, space: Word, out: Word) -> Word:
    """Whether an array may take the one result as it is."""
    inputs = table[TABLE.inputs]
    forms = further(words_at(table[TABLE.forms]), 2 * inputs)
    value, rank = words_at(out), forms[1]
    if not is_dense(value, table, forms[0], rank, DENSE | WRITEABLE):
        return False
    if not same_dims(value, words_at(space[SPACE.result_dims]), rank):
        return False
    return not overlaps(args, table, value, words_at(space[SPACE.result_bytes])[0], space)


@vectorisable
def made_results(table: Word, space: Word) -> Word:
    """New arrays for the results, their addresses noted; one array, or a tuple; 0 is an error."""
    inputs, count = table[TABLE.inputs], table[TABLE.results]
    forms = further(words_at(table[TABLE.forms]), 2 * inputs)
    outside, dims = words_at(space[SPACE.outside]), space[SPACE.result_dims]
    together = 0
    if table[TABLE.single] == 0:
        together = call_c(table[TABLE.new_tuple], (count,))
        if together == 0:
            return 0
    for k in range(count):
        dtype, rank = forms[2 * k], forms[2 * k + 1]
        call_c(table[TABLE.keep], (dtype,))
        array = call_c(table[TABLE.new_array], (rank, dims, dtype, 0))
        if array == 0:
            if together != 0:
                call_c(table[TABLE.drop], (together,))
            return 0
        outside[inputs + k] = words_at(array)[ARRAY_DATA]
        dims += 8 * rank
        if table[TABLE.single] != 0:
            together = array
        else:
            call_c(table[TABLE.set_item], (together, k, array))
    return together


@vectorisable
def plain_space(args: Word, table: Word) -> Word:
    """The free space for these arguments, their addresses noted; 0 where anything is unusual."""
    forms = words_at(table[TABLE.forms])
    for k in range(table[TABLE.inputs]):
        if not is_dense(words_at(args[k]), table, forms[2 * k], forms[2 * k + 1], DENSE):
            return 0
    at = found_space(args, table)
    if at == 0:
        return 0
    outside = words_at(words_at(at)[SPACE.outside])
    for k in range(table[TABLE.inputs]):
        outside[k] = words_at(args[k])[ARRAY_DATA]
    return at


@vectorisable
def named_out(table: Word, count: Word, names: Word) -> Word:
    """Whether `out` is the one argument that is passed by name, and one array can be it."""
    if words_at(names)[TUPLE_SIZE] != 1 or table[TABLE.single] == 0:
        return False
    return words_at(names)[TUPLE_ITEMS] == table[TABLE.out_name]


def enter(me: Word, args: Word, count: Word, names: Word) -> Word:
    """A call from Python: `me` is the array of the table, `names` a tuple of names or 0."""
    table = words_at(words_at(me)[ARRAY_DATA])
    space = 0
    if count == table[TABLE.inputs] and (names == 0 or named_out(table, count, names)):
        space = plain_space(words_at(args), table)
    if space != 0:
        values, at = words_at(args), words_at(space)
        result = 0
        if names == 0:
            result = made_results(table, at)
            if result == 0:
                return 0
        elif given_result(values, table, at, values[count]):
            result = values[count]
            call_c(table[TABLE.keep], (result,))
            words_at(at[SPACE.outside])[count] = words_at(result)[ARRAY_DATA]
        if result != 0:
            if run_released(at, table) == 0:
                return result
            call_c(table[TABLE.drop], (result,))
    return call_c(table[TABLE.call], (table[TABLE.otherwise], args, count, names))


def reserve(space: Word) -> Word:
    """Whether a space was free; it is the caller's then."""
    return atomic_set(further(space, SPACE.busy), 1) == 0


@cache
def space_reserver() -> Callable[[int], int]:
    """`reserve` on an address. It holds the GIL, as native calls do that look for a free space: no
    other thread runs between the test and the change."""
    code = built("reserve", lambda: c_function(types.int64(WORDS), reserve))
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.addresses[0])


@cache
def entry_address() -> int:
    """Where `enter` is."""
    word = types.int64
    signature = word(word, word, word, word)
    return built("enter", lambda: c_function(signature, enter)).addresses[0]


@cache
def run_address() -> int:
    """Where `run_space` is."""
    signature = types.int64(WORDS)
    return built("run_space", lambda: c_function(signature, run_space)).addresses[0]
