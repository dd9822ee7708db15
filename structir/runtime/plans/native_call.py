"""Native functions that call compiled code directly for known sizes, without executing Python."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, NoReturn

import numpy as np

from structir.runtime.plans.workspace import WORD
from structir.system.locks import new_lock
from structir.targets.cpu.layouts import (
    SPACE,
    TABLE,
    layouts_hold,
    new_array_address,
)
from structir.targets.cpu.runner import entry_address, sized_run_address
from structir.targets.cpu.tuples import MAX_DEPTH, Tree, argument_functions, result_functions

FAST_CALL_WITH_NAMES = 0x82  # METH_FASTCALL | METH_KEYWORDS
OUT = sys.intern("out")
FUNCTIONS = {
    TABLE.call: "PyObject_Vectorcall",
    TABLE.new_tuple: "PyTuple_New",
    TABLE.set_item: "PyTuple_SetItem",
    TABLE.keep: "Py_IncRef",
    TABLE.drop: "Py_DecRef",
    TABLE.save_thread: "PyEval_SaveThread",
    TABLE.restore_thread: "PyEval_RestoreThread",
    TABLE.check_signals: "PyErr_CheckSignals",
}


class MethodDefinition(ctypes.Structure):
    """The PyMethodDef of a function."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_void_p),
    )


class CallTable(np.ndarray[Any, Any]):
    """The object that calls of a function are bound to; it owns the memory of the call table.

    The definition of the function follows the table in the same memory. CPython reads the
    definition when it frees the function, and the garbage collector may have cleared `references`
    by then, but not the memory.
    """

    references: tuple[Any, ...]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a compiled function cannot be pickled: use `exe.save(path)` and `structir.load`"
        )

    @classmethod
    def of(cls, name: str, doc: str) -> Any:
        """Returns an empty table, with the definition of a function behind it."""
        texts = [text.encode() + b"\0" for text in (name, doc)]
        start = WORD * len(TABLE)
        ends = [*accumulate(map(len, texts), initial=start + ctypes.sizeof(MethodDefinition))]
        table = np.zeros(-(-ends[-1] // WORD), np.int64).view(cls)
        table.view(np.ndarray).view(np.uint8)[ends[0] : ends[-1]] = [*b"".join(texts)]
        definition = MethodDefinition.from_address(table.definition)
        definition.name, definition.doc = [int(table.ctypes.data) + end for end in ends[:2]]
        definition.code, definition.flags = entry_address(), FAST_CALL_WITH_NAMES
        return table

    @property
    def definition(self) -> int:
        """The address of the definition of the function."""
        return int(self.ctypes.data) + WORD * len(TABLE)


class NativeCall:
    """A function with a table of its latest sizes; other calls are passed to `otherwise`."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[tuple[Any, int]],
        results: Sequence[tuple[Any, int]],
        shape: Tree,
        otherwise: Callable[..., Any],
        arguments: Sequence[Tree] | None = None,
    ) -> None:
        forms = [int(f) for dtype, rank in (*inputs, *results) for f in (id(dtype), rank)]
        self._forms = np.array([*forms, 0], np.int64)
        self.table = CallTable.of(name, f"{name}(*arrays, out=None)")
        table_words = {
            TABLE.inputs: len(inputs),
            TABLE.results: len(results),
            TABLE.single: int(not isinstance(shape, tuple)),
            TABLE.arity: len(inputs if arguments is None else arguments),
            TABLE.tuple_type: id(tuple),
            TABLE.forms: self._forms.ctypes.data,
            TABLE.array_type: id(np.ndarray),
            TABLE.out_name: id(OUT),
            TABLE.otherwise: id(otherwise),
            TABLE.new_array: new_array_address(),
            **{index: address_of_function(function) for index, function in FUNCTIONS.items()},
        }
        for index, value in table_words.items():
            self.table[index] = value
        self.table.references = (self._forms, otherwise, inputs, results)
        if isinstance(shape, tuple):
            words = TABLE.result_tuples, TABLE.result_tuple_count, TABLE.result_leaves
            self._add_paths(*words, *_paths_of(shape))
            self._add_functions(result_functions())
        if arguments is not None and any([isinstance(a, tuple) for a in arguments]):
            words = TABLE.argument_tuples, TABLE.argument_tuple_count, TABLE.argument_leaves
            tuples, leaves = _paths_of(tuple(arguments))
            self._add_paths(*words, tuples[1:], leaves)  # all arguments are not one tuple
            self.table[TABLE.flat] = self._add([0] * len(inputs))
            self._add_functions(argument_functions())
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype, new.argtypes = (
            ctypes.py_object,
            [
                ctypes.c_void_p,
                ctypes.py_object,
                ctypes.c_void_p,
            ],
        )
        self.function: Callable[..., Any] = new(self.table.definition, self.table, None)
        self._spaces: list[Any] = []
        self._retired: list[Any] = []
        self._sized: Any = None
        self._lock = new_lock()

    def _add(self, words: Sequence[int]) -> int:
        """Returns the address of words that live as long as the table."""
        memory = np.array([*words, 0], np.int64)
        self.table.references = (*self.table.references, memory)
        return int(memory.ctypes.data)

    def _add_paths(
        self,
        of_tuples: int,
        count: int,
        of_leaves: int,
        tuples: Sequence[Sequence[int]],
        leaves: Sequence[Sequence[int]],
    ) -> None:
        """Stores paths at three indices of the table."""
        self.table[of_tuples] = self._add([*chain.from_iterable(tuples)])
        self.table[count] = len(tuples)
        self.table[of_leaves] = self._add([*chain.from_iterable(leaves)])

    def _add_functions(self, addresses: dict[int, int]) -> None:
        """Stores the addresses of functions, by their indices in the table."""
        for index, address in addresses.items():
            self.table[index] = address

    def set_spaces(self, spaces: Sequence[Any]) -> None:
        """Sets the workspaces to search, the latest first. Those in use are kept alive."""
        with self._lock:
            self.table[TABLE.first_space] = 0  # concurrent calls see an empty table meanwhile
            remaining = set(spaces)
            removed = [s for s in self._spaces if s not in remaining]
            self._retired = [s for s in (*self._retired, *removed) if s.words[SPACE.busy]]
            first = 0
            for space in reversed(spaces):
                space.words[SPACE.next] = first
                first = space.address
            self._spaces = list(spaces)
            self.table[TABLE.first_space] = first

    def set_sized(self, space: Any) -> None:
        """Sets the workspace of a plan for all sizes, or None. One in use is kept alive."""
        if space is not self._sized:
            with self._lock:
                if space is not None:  # before concurrent calls see it
                    self.table[TABLE.run_sized] = sized_run_address()
                self.table[TABLE.sized] = 0 if space is None else space.address
                before = [*self._retired, *([] if self._sized is None else [self._sized])]
                self._retired = [s for s in before if s.words[SPACE.busy]]
                self._sized = space

    def add_space(self, space: Any) -> None:
        """Adds a workspace in front of the others.

        A concurrent call may move another workspace to the front meanwhile. It is not
        searched until `set_spaces`.
        """
        with self._lock:
            space.words[SPACE.next] = self.table[TABLE.first_space]
            self._spaces.append(space)
            self.table[TABLE.first_space] = space.address


def native_call(
    name: str,
    inputs: Sequence[tuple[Any, int]],
    results: Sequence[tuple[Any, int]],
    shape: Tree,
    otherwise: Callable[..., Any],
    arguments: Sequence[Tree] | None = None,
) -> NativeCall | None:
    """Returns a native function in front of a Python one; None if it cannot be native.

    `shape` is the tree of the results, whose leaves are numbered in order, or 0 for a single one;
    `arguments` are the trees of the arguments, which by default are the inputs.
    """
    trees = [shape, *(() if arguments is None else [tuple(arguments)])]
    if not layouts_hold() or None in map(paths, trees):
        return None
    return NativeCall(name, inputs, results, shape, otherwise, arguments)


def _paths_of(tree: Tree) -> tuple[list[list[int]], list[list[int]]]:
    of_tree = paths(tree)
    assert of_tree is not None, "checked before"
    return of_tree


def paths(tree: Tree) -> tuple[list[list[int]], list[list[int]]] | None:
    """Returns the words of all tuples, outer ones first, and of all leaves; None if a tuple is
    nested too deeply."""
    places = list(_places(tree, ()))
    if any([len(place) > MAX_DEPTH for _, place in places]):
        return None
    words = [[size, len(place), *place, *[0] * (MAX_DEPTH - len(place))] for size, place in places]
    return [w for w in words if w[0] >= 0], [w for w in words if w[0] < 0]


def _places(tree: Tree, place: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Returns the size of each tuple, or -1 for a leaf, and the positions that lead to it."""
    if not isinstance(tree, tuple):
        yield -1, place
        return
    yield len(tree), place
    for k, field in enumerate(tree):
        yield from _places(field, (*place, k))


def address_of_function(name: str) -> int:
    """Returns the address of a function of CPython's C API."""
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
