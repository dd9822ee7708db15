"""The plan runner: runs all kernels of a plan in one compiled call, which Python calls directly.

`enter` implements CPython's vectorcall convention. It reads arrays through NumPy's object layout,
and falls back to a Python function for unusual arguments.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from structir.targets.cpu.atomics import atomic_set
from structir.targets.cpu.code_generation import c_function, started_c_function
from structir.targets.cpu.intrinsics import POINTERS, offset_by
from structir.targets.cpu.kinds import INDEX, WORDS
from structir.targets.cpu.layouts import (
    ARRAY_DATA,
    ARRAY_DIMS,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_RANK,
    DENSE,
    OBJECT_TYPE,
    PAUSE,
    POOL,
    ROW,
    SEEN_SIZES,
    SIZED_SPACE,
    SPACE,
    STATE,
    TABLE,
    TUPLE_ITEMS,
    TUPLE_SIZE,
    WRITEABLE,
)
from structir.targets.cpu.native import call_c, call_kernel
from structir.targets.cpu.thread_pool import acquire, release

Word = Any  # a 64-bit integer, or an address
LOW_HALF = 0xFFFFFFFF
MAX_SIZED_ELEMENTS = 1 << 15  # of the arguments of a plan for all sizes: a Python call is cheap
NOT_RUN = -1
HASH_FACTOR, HASH_MASK = 1_000_003, (1 << 40) - 1  # products have less than 63 bits
INTERRUPTED = -2  # a status: Python's exception is set


words_at: Any = POINTERS["int64"]
advance: Any = offset_by


def run_row(space: Word, number: Word, pool: Word) -> Word:
    """Runs one kernel of a plan, on the thread pool if there is one; nonzero on failure."""
    place = space[SPACE.rows] + 8 * len(ROW) * number
    row = words_at(place)
    if pool != 0 and row[ROW.chunk] > 0:
        stride, threads = space[SPACE.stride], space[SPACE.threads]
        return call_c(words_at(pool)[POOL.run], (pool, place, stride, threads))
    return call_kernel(row[ROW.code], row[ROW.table], row[ROW.low], row[ROW.high])


def patch(space: Word) -> None:
    """Writes the addresses of inputs and results into the argument block of each thread."""
    patches, outside = words_at(space[SPACE.patches]), words_at(space[SPACE.outside])
    for worker in range(space[SPACE.threads]):
        arguments = words_at(space[SPACE.arguments] + 8 * space[SPACE.stride] * worker)
        for i in range(space[SPACE.patch_count]):
            arguments[patches[2 * i]] = outside[patches[2 * i + 1]]


def run_rows(space: Word) -> Word:
    """Runs the kernels of a patched workspace; returns 0, or 1 + the index of a failed kernel."""
    pool, own, failed = space[SPACE.pool], space[SPACE.pool], 0
    if pool != 0 and not acquire(words_at(pool)):
        own = 0
    for number in range(space[SPACE.row_count]):
        if run_row(space, number, own) != 0:
            failed = number + 1
            break
    if pool != 0:
        release(words_at(pool))
    return failed


def run_space(space: Word) -> Word:
    """Patches and runs the kernels of a workspace; returns 0, or 1 + the index of a failed
    kernel."""
    patch(space)
    return run_rows(space)


def is_dense(value: Word, table: Word, dtype: Word, rank: Word, flags: Word) -> Word:
    """Whether an object is an array of this dtype and rank with all these flags."""
    if value[OBJECT_TYPE] != table[TABLE.array_type] or value[ARRAY_DTYPE] != dtype:
        return False
    if (value[ARRAY_RANK] & LOW_HALF) != rank:
        return False
    return (value[ARRAY_FLAGS] & flags) == flags


def same_dims(value: Word, dims: Word, rank: Word) -> Word:
    """Whether an array has this shape."""
    actual = words_at(value[ARRAY_DIMS])
    for axis in range(rank):  # noqa: SIM110 (compiled: no generators)
        if actual[axis] != dims[axis]:
            return False
    return True


def fits_space(args: Word, table: Word, space: Word) -> Word:
    """Whether the arguments have the shapes of a workspace."""
    forms, dims = words_at(table[TABLE.forms]), words_at(space[SPACE.dims])
    place = 0
    for k in range(table[TABLE.inputs]):
        rank = forms[2 * k + 1]
        if not same_dims(words_at(args[k]), advance(dims, place), rank):
            return False
        place += rank
    return True


def find_space(args: Word, table: Word) -> Word:
    """Returns the address of a free workspace for the shapes of the arguments, or 0.

    It is moved to the front of the list (most recently used first).
    """
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


def overlaps(args: Word, table: Word, out: Word, size: Word, space: Word) -> Word:
    """Whether the memory of a result overlaps that of an argument."""
    low = out[ARRAY_DATA]
    sizes = words_at(space[SPACE.input_bytes])
    for k in range(table[TABLE.inputs]):
        start = words_at(args[k])[ARRAY_DATA]
        if start < low + size and low < start + sizes[k]:
            return True
    return False


def run_all(space: Word) -> Word:
    """Runs the bytecode of a workspace, or its kernels; nonzero unless it completes."""
    patch(space)
    if space[SPACE.code] == 0:
        return run_rows(space)
    words_at(space[SPACE.state])[STATE.at] = 0
    return call_c(space[SPACE.code], (space[SPACE.state],))


def handle_signals(table: Word, state: Word) -> Word:
    """Acquires the GIL, unless `state` is 0, and handles Python's signals; nonzero on an
    exception."""
    if state != 0:
        call_c(table[TABLE.restore_thread], (state,))
    return call_c(table[TABLE.check_signals], ()) & LOW_HALF


def run_released(space: Word, table: Word) -> Word:
    """Runs a workspace; releases the GIL for long work, and handles signals in its loops."""
    space[SPACE.busy] = 1
    state = 0
    if space[SPACE.long] != 0:
        state = call_c(table[TABLE.save_thread], ())
    status = run_all(space)
    while status == PAUSE and space[SPACE.code] != 0:
        if handle_signals(table, state) != 0:
            space[SPACE.busy] = 0
            return INTERRUPTED
        if space[SPACE.long] != 0:
            state = call_c(table[TABLE.save_thread], ())
        status = call_c(space[SPACE.code], (space[SPACE.state],))
    if state != 0:
        call_c(table[TABLE.restore_thread], (state,))
    space[SPACE.busy] = 0
    return status


def accepts_out(args: Word, table: Word, space: Word, out: Word) -> Word:
    """Whether an array can be `out`: its form matches the only result, and it overlaps no
    argument."""
    inputs = table[TABLE.inputs]
    forms = advance(words_at(table[TABLE.forms]), 2 * inputs)
    value, rank = words_at(out), forms[1]
    if not is_dense(value, table, forms[0], rank, DENSE | WRITEABLE):
        return False
    if not same_dims(value, words_at(space[SPACE.result_dims]), rank):
        return False
    return not overlaps(args, table, value, words_at(space[SPACE.result_bytes])[0], space)


def allocate_results(table: Word, space: Word) -> Word:
    """Allocates the results and stores their addresses; returns an array or a tuple, 0 on an
    error."""
    inputs, count = table[TABLE.inputs], table[TABLE.results]
    forms = advance(words_at(table[TABLE.forms]), 2 * inputs)
    outside, dims = words_at(space[SPACE.outside]), space[SPACE.result_dims]
    together = 0
    if table[TABLE.single] == 0:
        together = call_c(table[TABLE.new_tuples], (table,))
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
            call_c(table[TABLE.put_result], (table, together, k, array))
    return together


def matching_space(args: Word, table: Word) -> Word:
    """Returns a free workspace for dense arguments and stores their addresses; else 0."""
    forms = words_at(table[TABLE.forms])
    for k in range(table[TABLE.inputs]):
        if not is_dense(words_at(args[k]), table, forms[2 * k], forms[2 * k + 1], DENSE):
            return 0
    at = find_space(args, table)
    if at == 0:
        return 0
    outside = words_at(words_at(at)[SPACE.outside])
    for k in range(table[TABLE.inputs]):
        outside[k] = words_at(args[k])[ARRAY_DATA]
    return at


def reads_sizes(args: Word, table: Word, space: Word) -> Word:
    """Stores the addresses and sizes of dense arguments; returns whether they are few elements."""
    forms, slots = words_at(table[TABLE.forms]), words_at(space[SIZED_SPACE.slots])
    registers, elements = words_at(space[SIZED_SPACE.registers]), 0
    place = 0
    for k in range(table[TABLE.inputs]):
        value, rank, size = words_at(args[k]), forms[2 * k + 1], 1
        if not is_dense(value, table, forms[2 * k], rank, DENSE):
            return False
        dims = words_at(value[ARRAY_DIMS])
        for axis in range(rank):
            registers[place] = dims[axis]
            size *= dims[axis]
            place += 1
        slots[k] = value[ARRAY_DATA]
        elements += size
    return elements <= MAX_SIZED_ELEMENTS


def copied_result(table: Word, space: Word, k: Word, place: Word) -> Word:
    """Returns a new array with a result of a plan for all sizes, 0 on an error; `place` is the
    index of its first size."""
    forms = advance(words_at(table[TABLE.forms]), 2 * table[TABLE.inputs])
    registers, chosen = (
        words_at(space[SIZED_SPACE.registers]),
        words_at(space[SIZED_SPACE.result_registers]),
    )
    dims = words_at(space[SIZED_SPACE.result_dims])
    size = words_at(space[SIZED_SPACE.result_bytes])[k]
    dtype, rank = forms[2 * k], forms[2 * k + 1]
    for axis in range(rank):
        dims[axis] = registers[chosen[place + axis]]
        size *= dims[axis]
    call_c(table[TABLE.keep], (dtype,))
    array = call_c(table[TABLE.new_array], (rank, space[SIZED_SPACE.result_dims], dtype, 0))
    if array != 0 and size > 0:
        value = words_at(space[SIZED_SPACE.slots])[words_at(space[SIZED_SPACE.result_slots])[k]]
        call_c(space[SIZED_SPACE.move], (words_at(array)[ARRAY_DATA], value, size))
    return array


def copied_results(table: Word, space: Word) -> Word:
    """Returns the results of a plan for all sizes: an array or a tuple; 0 on an error."""
    if table[TABLE.single] != 0:
        return copied_result(table, space, 0, 0)
    forms = advance(words_at(table[TABLE.forms]), 2 * table[TABLE.inputs])
    together, place = call_c(table[TABLE.new_tuples], (table,)), 0
    if together == 0:
        return 0
    for k in range(table[TABLE.results]):
        array = copied_result(table, space, k, place)
        if array == 0:
            call_c(table[TABLE.drop], (together,))
            return 0
        call_c(table[TABLE.put_result], (table, together, k, array))
        place += forms[2 * k + 1]
    return together


def hash_of_sizes(sizes: Word, count: Word) -> Word:
    """Returns a number above 0 that different sizes rarely share."""
    value = 0
    for k in range(count):
        value = (value * HASH_FACTOR + sizes[k]) & HASH_MASK
    return value + 1


def run_for_all_sizes(args: Word, table: Word, space: Word) -> Word:
    """Runs a plan for all sizes; returns its results, 0 on an exception, or NOT_RUN."""
    if space[SIZED_SPACE.busy] != 0 or not reads_sizes(args, table, space):
        return NOT_RUN
    count, number = space[SIZED_SPACE.size_count], 0
    if count > 0:
        number = hash_of_sizes(words_at(space[SIZED_SPACE.registers]), count)
    entry = words_at(space[SIZED_SPACE.seen] + 8 * (number % SEEN_SIZES))
    if count > 0 and entry[0] == number:
        return NOT_RUN  # a second call: Python binds kernels to these sizes
    space[SIZED_SPACE.busy] = 1
    words_at(space[SIZED_SPACE.start])[0] = 0
    state = call_c(table[TABLE.save_thread], ())
    stop = call_c(space[SIZED_SPACE.code], (space[SIZED_SPACE.state],))
    while stop == PAUSE:
        if handle_signals(table, state) != 0:
            space[SIZED_SPACE.busy] = 0
            return 0
        state = call_c(table[TABLE.save_thread], ())
        stop = call_c(space[SIZED_SPACE.code], (space[SIZED_SPACE.state],))
    call_c(table[TABLE.restore_thread], (state,))
    result = NOT_RUN
    if stop == 0:
        result = copied_results(table, space)
        entry[0] = number
    space[SIZED_SPACE.busy] = 0
    return result


def named_out(table: Word, count: Word, names: Word) -> Word:
    """Whether `out` is the only keyword argument, and the function has a single result."""
    if words_at(names)[TUPLE_SIZE] != 1 or table[TABLE.single] == 0:
        return False
    return words_at(names)[TUPLE_ITEMS] == table[TABLE.out_name]


def enter(me: Word, args: Word, count: Word, names: Word) -> Word:
    """Handles a call from Python: `me` is the array of the call table, `names` the keyword names
    or 0."""
    table, inputs = words_at(words_at(me)[ARRAY_DATA]), 0
    if count == table[TABLE.arity] and (names == 0 or named_out(table, count, names)):
        inputs = args
        if table[TABLE.flat] != 0:
            inputs = call_c(table[TABLE.flat_arguments], (args, table))
    space = 0
    if inputs != 0:
        space = matching_space(words_at(inputs), table)
    if space != 0:
        values, at = words_at(inputs), words_at(space)
        result = 0
        if names == 0:
            result = allocate_results(table, at)
            if result == 0:
                return 0
        elif accepts_out(values, table, at, words_at(args)[count]):
            result = words_at(args)[count]
            call_c(table[TABLE.keep], (result,))
            words_at(at[SPACE.outside])[table[TABLE.inputs]] = words_at(result)[ARRAY_DATA]
        if result != 0:
            status = run_released(at, table)
            if status == 0:
                return result
            call_c(table[TABLE.drop], (result,))
            if status == INTERRUPTED:
                return 0
    elif inputs != 0 and names == 0 and table[TABLE.sized] != 0:
        result = call_c(table[TABLE.run_sized], (inputs, table, table[TABLE.sized]))
        if result != NOT_RUN:
            return result
    return call_c(table[TABLE.call], (table[TABLE.otherwise], args, count, names))


def reserve(space: Word) -> Word:
    """Reserves a workspace; returns whether it was free."""
    return atomic_set(advance(space, SPACE.busy), 1) == 0


@cache
def space_reserver() -> Callable[[int], int]:
    """Returns `reserve` for the address of a workspace.

    It holds the GIL, as native calls do that search a free workspace: no other thread runs between
    the test and the write.
    """
    address = c_function(reserve, INDEX, WORDS)
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)


@cache
def started_entry() -> Callable[[], int]:
    """Starts to compile `enter`, while the kernels are scheduled."""
    return started_c_function(enter, INDEX, INDEX, INDEX, INDEX, INDEX)


if hasattr(os, "register_at_fork"):  # the thread does not exist in the child
    os.register_at_fork(after_in_child=started_entry.cache_clear)


@cache
def entry_address() -> int:
    """Returns the address of `enter`."""
    return started_entry()()


@cache
def sized_run_address() -> int:
    """Returns the address of `run_for_all_sizes`."""
    return c_function(run_for_all_sizes, INDEX, WORDS, WORDS, WORDS)


@cache
def run_address() -> int:
    """Returns the address of `run_space`."""
    return c_function(run_space, INDEX, WORDS)
