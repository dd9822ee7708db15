"""Maps the vdevices of a program to the target of its compilation.

A program compiles for one target and one device, so its values have one vdevice. The backends see
the program without vdevices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from structir.analysis.vdevices import VDeviceSubstitution, vdevices_in
from structir.errors import Diagnostic, DiagnosticError, Span
from structir.ir.module import IRModule
from structir.ir.vdevice import SCOPE, VDevice

KIND_OF_TARGET = {"cpu": "llvm"}
TARGET_OF_KIND = {"llvm": "cpu", "c": "cpu"}  # other kinds are names of targets
DEFAULT = "cpu"


def resolve_target(
    module: IRModule, target: str | None, targets: Callable[[], Sequence[str]]
) -> tuple[IRModule, str]:
    """Returns the module without vdevices, and the target: that of its vdevices if None.

    Raises DiagnosticError if a value is on a device that the target has not.
    """
    vdevices = vdevices_in(module)
    if not vdevices:
        return module, target or DEFAULT
    available = targets()  # slow: it searches other packages
    target_by_vdevice = {v: _target_of(v, span, available) for v, span in vdevices.items()}
    chosen = target or next(iter(target_by_vdevice.values()))
    for vdevice, other in target_by_vdevice.items():
        if other != chosen:
            raise _wrong_target(vdevice, other, vdevices, target)
    if chosen != DEFAULT and len({vdevice.index for vdevice in vdevices}) > 1:
        raise _several_devices(vdevices)
    return VDeviceSubstitution(lambda _: None).module(module), chosen


def _target_of(vdevice: VDevice, span: Span | None, available: Sequence[str]) -> str:
    target = TARGET_OF_KIND.get(vdevice.target, vdevice.target)
    if target not in available:
        kinds = ", ".join([*TARGET_OF_KIND, *available[1:]])
        message = f"vdevice {vdevice}: no backend compiles for it: expected one of {kinds}"
        raise _error(message, span, _update(vdevice, "llvm"))
    if vdevice.memory_scope != SCOPE:
        message = f'vdevice {vdevice}: expected the memory scope "{SCOPE}": kernels choose others'
        raise _error(message, span, _update(vdevice, f"{vdevice.target}:{vdevice.index}"))
    return target


def _wrong_target(
    vdevice: VDevice, expected: str, vdevices: Mapping[VDevice, Any], target: str | None
) -> DiagnosticError:
    if target is None:
        return _several_devices(vdevices)
    message = f"vdevice {vdevice}: expected target {expected!r}, found {target!r}"
    new = KIND_OF_TARGET.get(target, target)
    hint = f'`structir.compile(module, target="{expected}")`, or {_update(vdevice, new)}'
    return _error(message, vdevices[vdevice], hint)


def _several_devices(vdevices: Mapping[VDevice, Any]) -> DiagnosticError:
    (first, *_), last = vdevices, [*vdevices][-1]
    names = ", ".join(map(str, vdevices))
    message = f"a program runs on one device: expected one vdevice, found {names}"
    return _error(message, vdevices[last], _update(last, str(first)))


def _update(old: VDevice, new: str) -> str:
    return f'move its values: `passes.UpdateVDevice(old="{old}", new="{new}")(module)`'


def _error(message: str, span: Span | None, hint: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(message, span, "compile", hint=hint, code="E1006"))
