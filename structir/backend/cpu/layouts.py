"""Where things lie in memory, in words of eight bytes: arrays and tuples of CPython, our tables."""

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
EMPTY_ARRAY: Final = 184  # the place of PyArray_Empty in NumPy's table of functions


class RowPlaces(NamedTuple):
    """A kernel of a program: where its code and its table are, and its range."""

    code: int = 0
    table: int = 1
    low: int = 2
    high: int = 3
    chunk: int = 4  # that a thread claims at once; 0 where one thread runs it


class TablePlaces(NamedTuple):
    """What one function needs to be called: the forms of its arguments and results (a dtype and a
    rank each), its spaces, and functions of CPython."""

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


class SpacePlaces(NamedTuple):
    """What one call at a time uses at given sizes."""

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
    team: int = 13  # the address of a team's table, or 0
    threads: int = 14
    stride: int = 15  # words from the argument block of one thread to that of the next
    code: int = 16  # what runs the state of steps in place of the rows, or 0
    state: int = 17


class StatePlaces(NamedTuple):
    """A run of steps: where they and the slots are, and the step that it stands at."""

    steps: int = 0
    slots: int = 1
    at: int = 2
    detail: int = 3  # of a failure: the row of the plan
    move: int = 4  # the address of a function that copies memory


class TeamPlaces(NamedTuple):
    """What the threads of a team share. What several of them write has a cache line of its own."""

    generation: int = 0  # counts the rows that were opened
    open: int = 8
    next: int = 16
    active: int = 24
    failed: int = 32
    callers: int = 40  # calls under way that could use the team; the first one has it
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
    give_way: int = 65


ROW, TABLE, SPACE, TEAM = RowPlaces(), TablePlaces(), SpacePlaces(), TeamPlaces()
STATE = StatePlaces()
TEAM_WORDS: Final = 72


def address_of_function(name: str) -> int:
    """The address of a function of CPython's interface."""
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)


@cache
def new_array_address() -> int:
    """The address of NumPy's function that makes arrays."""
    capsule: Any = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    api = ctypes.pythonapi
    pointer = api.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    return int(table[EMPTY_ARRAY] or 0)


@cache
def layouts_hold() -> bool:
    """Whether CPython and NumPy keep things where this file says."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount"):
        return False
    return _array_is_as_said(np.zeros((3, 5), np.float32)) and _tuple_is_as_said(("out",))


def _words(value: Any, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(id(value)))


def _array_is_as_said(array: Any) -> bool:
    found = _words(array, ARRAY_FLAGS + 1)
    dims = (ctypes.c_int64 * 2).from_address(found[ARRAY_DIMS])
    facts = [
        found[OBJECT_TYPE] == id(np.ndarray),
        found[ARRAY_DATA] == array.ctypes.data,
        found[ARRAY_RANK] & 0xFFFFFFFF == 2,
        tuple(dims) == array.shape,
        found[ARRAY_DTYPE] == id(array.dtype),
        found[ARRAY_FLAGS] & (DENSE | WRITEABLE) == DENSE | WRITEABLE,
    ]
    return all(facts)


def _tuple_is_as_said(value: tuple[str, ...]) -> bool:
    found = _words(value, TUPLE_ITEMS + 1)
    return found[TUPLE_SIZE] == 1 and found[TUPLE_ITEMS] == id(value[0])
