"""Saved executables with changed plans, metadata, code or bytes are rejected, compiled again, or
return the results of the program."""

from __future__ import annotations

import json
import warnings
from functools import cache
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.lazy import lazy_module
from structir.printer.files.safetensors_file import mapped_file, write_file
from structir.system import cache as disk
from structir.targets.cpu import kernels, objects
from structir.tools.comparison import Disagreement
from structir.tools.hostile.mutation import VALUES, changed_bytes, mutated
from structir.tools.hostile.private_cache import planted_code, private_folder, require_no_marker
from structir.tools.hostile.stored_model import check_results, model

structir = lazy_module("structir")

PLANS, CODE = "plans ", "machine code "


@attrs.frozen
class ChangedExecutable:
    """The contents of a file; whether its plans and its code are those of the program, so that it
    may be called."""

    content: bytes
    is_genuine: bool


@cache
def _original() -> bytes:
    path = private_folder() / "model.sir"
    structir.compile(model()).save(path)
    return path.read_bytes()


def sample(random: Random) -> ChangedExecutable:
    """Generates a file."""
    how = random.choice([_with_plans, _with_plans, _with_code, _with_facts, _with_bytes])
    return how(random)


def _with_bytes(random: Random) -> ChangedExecutable:
    """Changes bytes of the header or the text, which no checksum of machine code covers."""
    return ChangedExecutable(changed_bytes(_original(), random), False)


def _with_plans(random: Random) -> ChangedExecutable:
    arrays, facts = _contents()
    name = next(n for n in arrays if n.startswith(PLANS))
    key = name.removeprefix(PLANS)
    plans: Any = json.loads(disk.parse_entry(key, arrays[name].tobytes()).data)  # type: ignore[union-attr]
    plans = mutated(plans, random, [planted_code()])
    arrays[name] = _packed(key, disk.CacheEntry({}, json.dumps(plans).encode()))
    return ChangedExecutable(_file_of(arrays, facts), False)


def _with_code(random: Random) -> ChangedExecutable:
    """Truncates machine code, or changes its metadata."""
    arrays, facts = _contents()
    name = random.choice([n for n in sorted(arrays) if n.startswith(CODE)])
    key = name.removeprefix(CODE)
    entry: Any = disk.parse_entry(key, arrays[name].tobytes())
    described, data = dict(entry.facts), entry.data
    if random.random() < 0.5:
        data = data[: random.choice([0, 1, 4, 64, random.randrange(len(data))])]
    else:
        changed = mutated({"facts": described}, random, [planted_code()]).get("facts")
        described = changed if isinstance(changed, dict) else {}
    arrays[name] = _packed(key, disk.CacheEntry(described, data))
    return ChangedExecutable(_file_of(arrays, facts), False)


def _with_facts(random: Random) -> ChangedExecutable:
    """Changes or removes metadata of the file."""
    arrays, facts = _contents()
    name = random.choice(sorted(facts))
    if random.random() < 0.2:
        facts.pop(name)
    elif random.random() < 0.5:
        facts[name] = json.dumps(random.choice(VALUES))
    else:
        facts[name] = changed_bytes(facts[name].encode(), random).decode(errors="replace")
    return ChangedExecutable(_file_of(arrays, facts), name != "structir")


def _contents() -> tuple[dict[str, Any], dict[str, str]]:
    path = private_folder() / "model.sir"
    path.write_bytes(_original())
    arrays, facts = mapped_file(path)
    return {n: np.array(a) for n, a in arrays.items()}, dict(facts)


def _packed(key: str, entry: disk.CacheEntry) -> Any:
    return np.frombuffer(disk.pack_entry(key, entry), np.uint8)


def _file_of(arrays: dict[str, Any], facts: dict[str, str]) -> bytes:
    path = private_folder() / "changed.sir"
    write_file(arrays, facts, path)
    return path.read_bytes()


def check(case: ChangedExecutable) -> None:
    """Loads the file in a process without its machine code; calls what is genuine."""
    path = private_folder() / "model.sir"
    path.write_bytes(case.content)
    kernels._kernels.clear()
    objects._offered.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = structir.load(path)
        except StructIRError:
            return
    require_no_marker()
    if case.is_genuine and hasattr(loaded, "function_names"):
        if loaded.function_names != ("main",):
            raise Disagreement(f"expected the function main, found {loaded.function_names}")
        check_results(loaded)
