"""Stores compiled functions in the disk cache, under the hash of their program.

A large float array contributes only its dtype and shape to the hash, because no plan depends on its
elements.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from structir.analysis.variables import walk
from structir.errors import StructIRError
from structir.ir.expr import Call, Constant, Function
from structir.ir.module import IRModule
from structir.ir.op import Op, find_op
from structir.ir.scalar_functions import hash_of_other_packages
from structir.opdef.declaration import is_built_in
from structir.printer.constants import constants_named, reference_name
from structir.printer.text import text_of
from structir.runtime.files.packed_references import reference_to, resolve_reference
from structir.runtime.files.serialise import (
    StoredFunction,
    TableReader,
    TableWriter,
    decode,
    serialise,
)
from structir.runtime.files.serialise_checks import NotStoredError, item, require, signature
from structir.system import cache as disk
from structir.system.locks import cached_property
from structir.targets.cpu.identity import machine_identity

LARGE_CONSTANT = 1 << 12  # elements; lowering inspects the values of small constants only
PACKAGE = Path(__file__).resolve().parents[2]


class FunctionStore(Protocol):
    """The interface of a store of compiled functions of a program."""

    @property
    def names(self) -> Collection[str]:
        """The names of all functions of the program."""

    def functions(self) -> list[StoredFunction]:
        """Returns the stored functions."""

    def keep(self, functions: Iterable[StoredFunction]) -> None:
        """Stores functions."""


class CachedPlans:
    """The cache entry of a module compiled with some options."""

    def __init__(
        self,
        module: IRModule,
        options: str = "",
        make_writer: Callable[..., TableWriter] = TableWriter,
        make_reader: Callable[..., TableReader] = TableReader,
    ) -> None:
        self.make_writer, self.make_reader = make_writer, make_reader
        self._module, self._options = module, options
        self._declared = {n: f for n, f in module.functions.items() if isinstance(f, Function)}
        self.names: Collection[str] = list(self._declared)

    @cached_property
    def _nodes(self) -> list[Any]:
        return list(walk(self._module))

    @cached_property
    def constants(self) -> list[Any]:
        """The arrays of the constants of the module."""
        arrays = [node.data for node in self._nodes if isinstance(node, Constant)]
        return list({id(data): data for data in arrays}.values())

    @cached_property
    def _indices(self) -> dict[int, int]:
        return {id(data): index for index, data in enumerate(self.constants)}

    def functions(self) -> list[StoredFunction]:
        """Returns the functions of the module that are in the cache."""
        store = disk.store()
        entry = None if store is None or self._key is None else store.read(self._key)
        if entry is None or entry.facts.get("kind") != "plans":
            return []
        try:
            functions = decode(entry.data, self.make_reader, self._array_at)
            names = {f.name for f in functions}
            is_valid = len(names) == len(functions) and all(map(self._matches_program, functions))
            require(is_valid, "functions of another program")
        except NotStoredError:
            return []
        return functions

    def _matches_program(self, stored: StoredFunction) -> bool:
        """Whether a function has the signature that the program declares."""
        function = self._declared.get(stored.name)
        if function is None or len(function.params) != len(stored.params):
            return False
        names = [p.name for p in function.params] == [p.name for p in stored.params]
        declared = [*[p.struct_info for p in function.params], function.ret_struct_info]
        read = [*[p.struct_info for p in stored.params], stored.result]
        return names and signature(declared) == signature(read)

    def keep(self, functions: Iterable[StoredFunction]) -> None:
        """Stores the compiled functions of the module."""
        store = disk.store()
        if store is not None and self._key is not None:
            data = json.dumps(serialise(functions, self.make_writer(self._reference_to))).encode()
            store.write(self._key, disk.CacheEntry({"kind": "plans"}, data))

    @cached_property
    def _key(self) -> str | None:
        """The hash of everything that plans depend on; None if it has no source form.

        The source of a program does not have the declarations of its ops. Those of other packages
        may change between two runs.
        """
        calls = [node for node in self._nodes if isinstance(node, Call)]
        if not all(map(_is_of_built_in_ops, calls)):
            return None
        try:
            with constants_named(self._name):
                text = text_of(self._module)
        except StructIRError:
            return None
        scalar_functions = hash_of_other_packages()
        # source locations, for profiles and errors
        locations = [str(call.span) for call in calls]
        return disk.digest(
            machine_identity(), sources_stamp(), self._options, scalar_functions, text, *locations
        )

    def _name(self, data: Any) -> str:
        """Returns the index of a constant, and the facts that plans may depend on."""
        index = self._indices.get(id(data))
        if index is None or data.size <= LARGE_CONSTANT or data.dtype.kind != "f":
            return f"{index} {reference_name(data)}"
        return f"{index} {data.dtype.name} {data.shape}"

    def _reference_to(self, array: Any) -> Any:
        return reference_to(array, self._index_of)

    def _index_of(self, data: Any) -> int:
        index = self._indices.get(id(data))
        if index is None:
            raise NotStoredError("an array that is not of the program")
        return index

    def _array_at(self, reference: Any) -> Any:
        return resolve_reference(reference, lambda index: item(index, self.constants))


def has_built_in_ops(module: IRModule) -> bool:
    """Returns whether the package declares all ops of a program."""
    return all([_is_of_built_in_ops(node) for node in walk(module) if isinstance(node, Call)])


def _is_of_built_in_ops(call: Call) -> bool:
    """Returns whether this package declares the op of a call, and ops that its attributes name."""
    named = [find_op(text) for text in _strings(tuple(call.attrs.values()))]
    ops = [op for op in (call.op, *named) if isinstance(op, Op)]
    return all(is_built_in(getattr(op.definition, "body", None)) for op in ops)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _strings(part)


@cache
def sources_stamp() -> str:
    """Returns a hash of the sizes and modification times of this package's sources: plans depend on
    all modules that compile a program."""
    return disk.digest(*stamps(str(PACKAGE)))


def stamps(folder: str) -> Iterator[str]:
    """Yields the name, size and modification time of each Python file in a folder and below."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from stamps(entry.path)
            elif entry.name.endswith(".py"):
                stat = entry.stat()
                yield f"{entry.name} {stat.st_size} {stat.st_mtime_ns}"
