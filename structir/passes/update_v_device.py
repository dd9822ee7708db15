"""Moves values from one vdevice to another."""

from __future__ import annotations

from structir.analysis.vdevices import VDeviceSubstitution
from structir.errors import StructIRError
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.vdevice import VDevice, as_vdevice, devices_of
from structir.passes.base import module_pass
from structir.printer.syntax import GLOBAL_INFOS


@module_pass(aliases=("update_vdevice",))
def update_v_device(module: IRModule, *, old: str = "", new: str = "") -> IRModule:
    """Moves all values on the vdevice `old` to `new`, both written as in annotations.

    A module that lists its devices gets an entry for a new one.
    """
    if not old or not new:
        return module
    before, after = as_vdevice(old), as_vdevice(new)
    assert before is not None and after is not None
    substitution = VDeviceSubstitution(lambda vdevice: after if vdevice == before else vdevice)
    updated = substitution.module(module)
    return updated if updated is module else replace(updated, attrs=_attributes(module, after))


def _attributes(module: IRModule, vdevice: VDevice) -> dict[str, object]:
    """Returns the attributes of a module with this device in its list, if it has a list."""
    entries = module.attrs.get(GLOBAL_INFOS)
    if not entries or vdevice in devices_of(entries):
        return dict(module.attrs)
    extended = [*entries, [vdevice.target, vdevice.index, vdevice.memory_scope]]
    if vdevice not in devices_of(extended):
        names = ", ".join(map(str, devices_of(entries)))
        message = f"update_v_device: expected a device of the module, {names}; found {vdevice}"
        raise StructIRError(message, code="E0611")
    return {**module.attrs, GLOBAL_INFOS: extended}
