"""Memory layouts in 8-byte words: CPython's arrays and tuples, and the tables of the plan
runner."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

OBJECT_TYPE: Final = 1
TUPLE_SIZE: Final = 2
TUPLE_ITEMS: Final = 3
ARRAY_DATA: Final = 2
ARRAY_RANK: Final = 3  # the lower half
ARRAY_DIMS: Final = 4
ARRAY_DTYPE: Final = 7
ARRAY_FLAGS: Final = 8  # the lower half
DENSE: Final = 0x101  # in C order, and aligned
WRITEABLE: Final = 0x400
EMPTY_ARRAY: Final = 184  # index of PyArray_Empty in NumPy's C API table
PAUSE: Final = 4  # the reason why a run of bytecode stops for Python to handle its signals


class RowWords(NamedTuple):
    """A kernel of a plan: the addresses of its code and argument table, and its range."""

    code: int = 0
    table: int = 1
    low: int = 2
    high: int = 3
    chunk: int = 4  # iterations that a thread claims at a time; 0 for a serial kernel
    phase: int = 5  # the index in the argument table of the words of its phases, or 0


PART_MULTIPLE: Final = 32  # parts of kernels with phases begin at multiples of this


class PhaseWords(NamedTuple):
    """The last sizes of a kernel with a synchronized loop. Phase 0 has the statements before the
    loop, and each following phase an iteration. A call runs the phases from `first` to `last`."""

    first: int = 0
    last: int = 1  # the number of all phases, where the kernel runs in one call
    claimed: int = 2  # the number of phases of the part of a thread that any thread has begun


class TableWords(NamedTuple):
    """The call table of a function: the forms of its arguments and results (a dtype and a rank
    each), its workspaces, and functions of CPython's API."""

    inputs: int = 0
    results: int = 1
    single: int = 2
    forms: int = 3
    first_space: int = 4
    array_type: int = 5
    out_name: int = 6
    otherwise: int = 7
    call: int = 8
    new_array: int = 9
    new_tuple: int = 10
    set_item: int = 11
    keep: int = 12
    drop: int = 13
    save_thread: int = 14
    restore_thread: int = 15
    sized: int = 16  # the workspace of a plan for all sizes, or 0
    check_signals: int = 17
    arity: int = 18  # the number of arguments, which may be tuples of inputs
    flat: int = 19  # memory for the addresses of the inputs, or 0 if no argument is a tuple
    argument_tuples: int = 20  # paths, and their number
    argument_tuple_count: int = 21
    argument_leaves: int = 22
    result_tuples: int = 23
    result_tuple_count: int = 24
    result_leaves: int = 25
    tuple_type: int = 26
    # The addresses of parts of the plan runner, which are compiled only for functions that need
    # them: those of tuples, and that of a plan for all sizes.
    flat_arguments: int = 27
    new_tuples: int = 28
    put_result: int = 29
    run_sized: int = 30


class SpaceWords(NamedTuple):
    """A workspace: the state of one call at given sizes."""

    next: int = 0
    busy: int = 1
    long: int = 2
    dims: int = 3
    input_bytes: int = 4
    result_dims: int = 5
    result_bytes: int = 6
    rows: int = 7
    row_count: int = 8
    patches: int = 9
    patch_count: int = 10
    arguments: int = 11
    outside: int = 12
    pool: int = 13  # the address of the table of a thread pool, or 0
    threads: int = 14
    stride: int = 15  # words between the argument blocks of two threads
    code: int = 16  # the address of the bytecode runner, or 0 to run the kernels
    state: int = 17


class SizedSpaceWords(NamedTuple):
    """A workspace of a plan for all sizes: the tables of a call, by inputs and results."""

    next: int = 0
    busy: int = 1  # as of other workspaces
    code: int = 2  # the address of the bytecode runner
    state: int = 3
    start: int = 4  # the address of the index of the current instruction
    slots: int = 5  # those of the inputs are first
    registers: int = 6  # those of the sizes of the inputs are first
    result_slots: int = 7
    result_registers: int = 8  # of the sizes of the results
    result_bytes: int = 9  # of an element of each result
    result_dims: int = 10  # memory for the sizes of a result
    move: int = 11  # the address of a function that copies memory
    seen: int = 12  # a table of the hashes of the latest sizes
    size_count: int = 13  # of the arguments, if each of their sizes runs once; else 0


class StateWords(NamedTuple):
    """The state of a bytecode run: the instructions, the slots, and the current index."""

    code: int = 0
    slots: int = 1
    at: int = 2
    detail: int = 3  # on failure, the index of the kernel in its plan
    move: int = 4  # the address of a function that copies memory
    jumps: int = 5  # since the last return to Python


class PoolWords(NamedTuple):
    """The shared state of a thread pool. Words that several threads write have their own cache
    lines."""

    generation: int = 0  # number of kernels started
    open: int = 8
    next: int = 16
    active: int = 24
    failed: int = 32
    callers: int = 40  # concurrent calls; the first one owns the pool
    sleepers: int = 48
    row: int = 56
    stride: int = 57
    threads: int = 58
    mutex: int = 59
    condition: int = 60
    lock: int = 61
    unlock: int = 62
    wait: int = 63
    broadcast: int = 64
    yield_thread: int = 65
    phases: int = 66  # of the current kernel; 0 for one without
    run: int = 67  # the addresses of the functions that run a kernel on the pool,
    work: int = 68  # and that take part in the current kernel
    done: int = 72  # parts of its phases that are completed


ROW, TABLE, SPACE, POOL = RowWords(), TableWords(), SpaceWords(), PoolWords()
PHASE = PhaseWords()
STATE, SIZED_SPACE = StateWords(), SizedSpaceWords()
POOL_WORDS: Final = 80
SEEN_SIZES: Final = 256  # entries of a table of hashes


@cache
def new_array_address() -> int:
    """Returns the address of NumPy's PyArray_Empty."""
    capsule: Any = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    api = ctypes.pythonapi
    pointer = api.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    return int(table[EMPTY_ARRAY] or 0)


@cache
def layouts_hold() -> bool:
    """Whether the layouts of CPython's and NumPy's objects match this file."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount"):
        return False
    return _array_layout_holds(np.zeros((3, 5), np.float32)) and _tuple_layout_holds(("out",))


def _words(value: Any, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(id(value)))


def _array_layout_holds(array: Any) -> bool:
    words = _words(array, ARRAY_FLAGS + 1)
    dims = (ctypes.c_int64 * 2).from_address(words[ARRAY_DIMS])
    facts = [
        words[OBJECT_TYPE] == id(np.ndarray),
        words[ARRAY_DATA] == array.ctypes.data,
        words[ARRAY_RANK] & 0xFFFFFFFF == 2,
        tuple(dims) == array.shape,
        words[ARRAY_DTYPE] == id(array.dtype),
        words[ARRAY_FLAGS] & (DENSE | WRITEABLE) == DENSE | WRITEABLE,
    ]
    return all(facts)


def _tuple_layout_holds(value: tuple[str, ...]) -> bool:
    words = _words(value, TUPLE_ITEMS + 1)
    return words[TUPLE_SIZE] == 1 and words[TUPLE_ITEMS] == id(value[0])
