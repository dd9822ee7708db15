"""Nested tuples in native calls: those of arguments are read, those of results are built."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

from structir.targets.cpu.code_generation import c_function
from structir.targets.cpu.intrinsics import POINTERS
from structir.targets.cpu.kinds import INDEX, NOTHING, WORDS
from structir.targets.cpu.layouts import OBJECT_TYPE, TABLE, TUPLE_ITEMS, TUPLE_SIZE
from structir.targets.cpu.native import call_c

Word = Any  # a 64-bit integer, or an address
Tree = Any  # nested tuples, whose leaves are numbered in order
MAX_DEPTH: Final = 6
PATH_WORDS: Final = 2 + MAX_DEPTH
words_at: Any = POINTERS["int64"]


class PathWords(NamedTuple):
    """The place of a tuple, with its size, or of a leaf: the positions in the tuples around it."""

    size: int = 0
    depth: int = 1
    positions: int = 2


PATH = PathWords()


def path_at(table: Word, index: Word) -> Word:
    """Returns the words of a path."""
    return words_at(table + 8 * PATH_WORDS * index)


def follow(root: Word, path: Word, steps: Word) -> Word:
    """Returns the object at some positions in a tuple."""
    node = root
    for k in range(steps):
        node = words_at(node)[TUPLE_ITEMS + path[PATH.positions + k]]
    return node


def flat_arguments(args: Word, table: Word) -> Word:
    """Returns the address of the leaves of the arguments; 0 if a tuple has another form.

    The arguments are in consecutive words, like the items of a tuple.
    """
    root, paths_of_tuples = args - 8 * TUPLE_ITEMS, table[TABLE.argument_tuples]
    for k in range(table[TABLE.argument_tuple_count]):
        path = path_at(paths_of_tuples, k)
        node = words_at(follow(root, path, path[PATH.depth]))
        if node[OBJECT_TYPE] != table[TABLE.tuple_type] or node[TUPLE_SIZE] != path[PATH.size]:
            return 0
    flat = words_at(table[TABLE.flat])
    for k in range(table[TABLE.inputs]):
        path = path_at(table[TABLE.argument_leaves], k)
        flat[k] = follow(root, path, path[PATH.depth])
    return table[TABLE.flat]


def put_in_tuple(table: Word, root: Word, path: Word, value: Word) -> None:
    """Stores an object at its place in new tuples."""
    depth = path[PATH.depth] - 1
    parent = follow(root, path, depth)
    call_c(table[TABLE.set_item], (parent, path[PATH.positions + depth], value))


def new_tuples(table: Word) -> Word:
    """Returns the outermost of the tuples of results, which have no leaves; 0 on an error."""
    root = 0
    for k in range(table[TABLE.result_tuple_count]):
        path = path_at(table[TABLE.result_tuples], k)
        value = call_c(table[TABLE.new_tuple], (path[PATH.size],))
        if value == 0:
            if root != 0:
                call_c(table[TABLE.drop], (root,))
            return 0
        if root == 0:
            root = value
        else:
            put_in_tuple(table, root, path, value)
    return root


def put_result(table: Word, root: Word, k: Word, array: Word) -> None:
    """Stores a result in new tuples."""
    put_in_tuple(table, root, path_at(table[TABLE.result_leaves], k), array)


@cache
def argument_functions() -> dict[int, int]:
    """Returns the addresses of the functions for arguments with tuples, by their indices in a call
    table."""
    return {TABLE.flat_arguments: c_function(flat_arguments, INDEX, INDEX, WORDS)}


@cache
def result_functions() -> dict[int, int]:
    """Returns the addresses of the functions for results in tuples, by their indices in a call
    table."""
    put = c_function(put_result, NOTHING, WORDS, INDEX, INDEX, INDEX)
    return {TABLE.new_tuples: c_function(new_tuples, INDEX, WORDS), TABLE.put_result: put}
