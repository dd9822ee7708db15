"""Virtual devices: the device and memory on which a tensor is placed, as in TVM Relax."""

from __future__ import annotations

import re
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError

SCOPE = "global"  # the memory scope of a device unless another is written
PATTERN = re.compile(r"([A-Za-z_][\w-]*)(?::(\d+)(?::([\w.-]+))?)?", re.ASCII)
EXAMPLE = '`R.Tensor((n, 4), "float32", "cuda:0")`'


Entry = list[Any]  # of the list of a module: target, id of the device, memory scope


@attrs.frozen(repr=False, str=False)
class VDevice:
    """A device by the kind of its target and its index among those, and a memory scope.

    The text is `cuda`, `cuda:1` or `cuda:1:shared`: the index 0 and the scope "global" are omitted.
    """

    target: str
    index: int = 0
    memory_scope: str = SCOPE

    def __str__(self) -> str:
        if self.memory_scope != SCOPE:
            return self.full_text
        return f"{self.target}:{self.index}" if self.index else self.target

    def __repr__(self) -> str:
        return f'VDevice("{self}")'

    @property
    def full_text(self) -> str:
        """The text with index and memory scope, as TVM prints it."""
        return f"{self.target}:{self.index}:{self.memory_scope}"


def as_vdevice(value: Any) -> VDevice | None:
    """Returns a vdevice or None unchanged, and parses a string; raises DiagnosticError."""
    if value is None or type(value) is VDevice:
        return value
    match = PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        message = f'vdevice: expected a device such as "cuda:0" or "llvm", found {value!r}'
        raise DiagnosticError(Diagnostic(message, hint=f"write {EXAMPLE}", code="E0107"))
    target, index, scope = match.groups()
    return VDevice(target, int(index or 0), scope or SCOPE)


def kind_of(target: Any) -> str | None:
    """Returns the kind of a target: `cuda` of "cuda -arch=sm_80" and of {"kind": "cuda"}."""
    kind = target.get("kind") if isinstance(target, dict) else target
    word = kind.split()[0] if isinstance(kind, str) and kind.split() else ""
    return word if word.isidentifier() else None


def devices_of(entries: list[Entry]) -> list[VDevice]:
    """Returns the devices of a list, each with its index among those of its kind."""
    devices: list[VDevice] = []
    for target, _, scope in entries:
        kind = str(kind_of(target))
        devices.append(VDevice(kind, sum(d.target == kind for d in devices), scope))
    return devices
