"""Cache entries of machine code with changed metadata, truncated code or changed bytes are rejected
or loaded."""

from __future__ import annotations

from functools import cache
from random import Random

import attrs

from structir.lazy import lazy_module
from structir.loops.emit.code import KernelCode, code_of
from structir.system import cache as disk
from structir.targets.cpu import kernels, objects
from structir.tools.comparison import Disagreement
from structir.tools.hostile.mutation import changed_bytes, mutated
from structir.tools.hostile.private_cache import planted_code, private_folder, require_no_marker

structir = lazy_module("structir")

KERNEL = """
@I.kernel
def scaled(x: R.Tensor((6,), "float32"), y: R.Tensor((6,), "float32")):
    low, high = T.part(6)
    for i in range(low, high):
        y[i] = x[i] * 3.0
"""


@attrs.frozen
class ChangedEntry:
    """The contents of a cache entry; whether its checksum is valid."""

    content: bytes
    is_valid: bool


@cache
def _code() -> KernelCode:
    """Returns the source and LLVM IR of the kernel."""
    return code_of(structir.parse(KERNEL)["scaled"], is_generated=True)


@cache
def _entry() -> disk.CacheEntry:
    private_folder()
    kernels._kernels.clear()
    kernels.kernel(_code().key, lambda: _code().assembled)
    store = disk.store()
    entry = None if store is None else store.read(objects.key_of(_code().key))
    assert entry is not None
    return entry


def sample(random: Random) -> ChangedEntry:
    """Generates an entry. Changed code under a valid checksum is truncated: other changes of it
    are forged machine code, which is trusted."""
    entry, key = _entry(), objects.key_of(_code().key)
    how = random.randrange(4)
    if how == 0:
        return ChangedEntry(changed_bytes(disk.pack_entry(key, entry), random), False)
    facts, data = dict(entry.facts), entry.data
    if how == 1:
        data = data[: random.randrange(len(data))]
    else:
        changed = mutated({"facts": facts}, random, [planted_code()]).get("facts")
        facts = changed if isinstance(changed, dict) else {}
    return ChangedEntry(disk.pack_entry(key, disk.CacheEntry(facts, data)), True)


def check(case: ChangedEntry) -> None:
    """Writes the entry and loads it."""
    _entry()
    store = disk.store()
    assert store is not None
    store.path(objects.key_of(_code().key)).write_bytes(case.content)
    code = objects.from_disk(_code().key)
    if code is not None and (0 in code.addresses or not case.is_valid):
        raise Disagreement(f"an invalid entry was loaded: {code.addresses}")
    require_no_marker()
