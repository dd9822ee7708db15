"""Parses vdevices: `"cuda:0"`, `I.vdevice("cuda", 0)`, `R.cpu(0)`, and the list of a module.

With `I.module_global_infos({"vdevice": [...]})`, `cuda:1` is the second device of that kind in the
list, and `vdevice:1` the second of all. Without the list every device is known.
"""

from __future__ import annotations

import ast
from typing import Any

from structir.errors import DiagnosticError
from structir.ir.expr import Call
from structir.ir.op import find_op
from structir.ir.vdevice import EXAMPLE, SCOPE, Entry, VDevice, as_vdevice, devices_of, kind_of
from structir.printer.parser.context import Context
from structir.printer.parser.static_values import static_value
from structir.printer.parser.tvm_spellings import MOVE
from structir.printer.parser.values import operand, path_of
from structir.printer.syntax import GLOBAL_INFOS, VDEVICE

OF_ALL = "vdevice"  # `vdevice:1` counts all devices of the module's list
CPU, CPU_KINDS = "llvm", ("llvm", "c")
KIND_BY_NAME = {"cpu": CPU, "gpu": "cuda"}  # `R.cpu(0)`; others are kinds
NAME_BY_TYPE = {  # the numbers of DLPack, as in `R.device(1, 0)`
    **{1: "cpu", 2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 15: "webgpu"}
}
FUNCTIONS = frozenset({*NAME_BY_TYPE.values(), *KIND_BY_NAME})
INFOS_EXAMPLE = '`I.module_global_infos({"vdevice": [I.vdevice("cuda", 0)]})`'
PARAMETERS = (("x", "data", "input"), ("dst_vdevice", "device"), ("memory_scope",))


def read_global_infos(context: Context, node: ast.Call) -> list[Entry]:
    """Parses the devices of `I.module_global_infos({"vdevice": [...]})`; ignores other keys."""
    infos = node.args[0] if len(node.args) == 1 and not node.keywords else None
    if not isinstance(infos, ast.Dict):
        message = f"I.module_global_infos: expected a dict, found `{ast.unparse(node)}`"
        raise context.error(node, message, INFOS_EXAMPLE, "E0107")
    entries: list[Entry] = []
    for key, value in zip(infos.keys, infos.values, strict=True):
        if getattr(key, "value", None) == VDEVICE:
            entries += [_entry(context, item) for item in getattr(value, "elts", [value])]
    return entries


def _entry(context: Context, node: ast.expr) -> Entry:
    """Parses `I.vdevice(target, index, memory_scope)`."""
    is_call = isinstance(node, ast.Call) and path_of(node.func) == f"I.{VDEVICE}"
    if not isinstance(node, ast.Call) or not is_call:
        message = f"expected a device of the module, found `{ast.unparse(node)}`"
        raise context.error(node, message, INFOS_EXAMPLE, "E0107")
    names = ("target", "vdevice_id", "memory_scope")
    nodes = [*zip(names, node.args, strict=False), *[(k.arg, k.value) for k in node.keywords]]
    values = {str(name): _literal(context, item) for name, item in nodes}
    target, index = values.get("target"), values.get("vdevice_id", 0)
    scope = values.get("memory_scope", SCOPE)
    entry = [target, index, scope]
    kind, types = kind_of(target), (type(index), type(scope))
    if not values.keys() <= {*names} or kind is None or types != (int, str):
        message = f"I.vdevice: expected a target, an index and a scope, found `{ast.unparse(node)}`"
        raise context.error(node, message, INFOS_EXAMPLE, "E0107")
    return entry


def _literal(context: Context, node: ast.expr) -> Any:
    """Returns the value of a literal, also inside of `T.target(...)`."""
    if isinstance(node, ast.Call) and (path_of(node.func) or "").lower().endswith("target"):
        node = node.args[0] if node.args else node
    try:
        return ast.literal_eval(node)
    except ValueError:
        message = f"expected a literal, found `{ast.unparse(node)}`"
        raise context.error(node, message, INFOS_EXAMPLE, "E0107") from None


def vdevice_of(context: Context, node: ast.expr) -> VDevice | None:
    """Parses the vdevice of a StructInfo or of a move."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str(text)):
            return _named(context, node, text)
        case ast.Call() if path_of(node.func) == f"I.{VDEVICE}":
            return _of_entry(context, node)
        case ast.Call() if (path_of(node.func) or "").rpartition(".")[2] in (*FUNCTIONS, "device"):
            return _of_function(context, node)
    value = static_value(context, node)
    if isinstance(value, str | VDevice):
        return _named(context, node, str(value))
    raise _not_a_device(context, node)


def _not_a_device(context: Context, node: ast.expr) -> Exception:
    message = f'vdevice: expected a device such as "cuda:0", found {ast.unparse(node)}'
    return context.error(node, message, f"write {EXAMPLE}; a rank is `ndim=2`", "E0107")


def _named(context: Context, node: ast.expr, text: str, scope: str = "") -> VDevice:
    """Resolves the text of a device in the list of the module."""
    try:
        vdevice = as_vdevice(text)
    except DiagnosticError:
        raise _not_a_device(context, node) from None
    assert vdevice is not None
    scope = scope or text.partition(":")[2].partition(":")[2]
    known = _devices(context)
    if not known and vdevice.target != OF_ALL:
        return VDevice(vdevice.target, vdevice.index, scope or SCOPE)
    of_kind = [d for d in known if vdevice.target in (OF_ALL, d.target)]
    match = of_kind[vdevice.index] if vdevice.index < len(of_kind) else None
    if match is None or scope not in ("", match.memory_scope):
        names = ", ".join(f'"{device}"' for device in known) or "none"
        message = f"vdevice: expected a device of the module, {names}; found {text!r}"
        raise context.error(node, message, f"declare it: {INFOS_EXAMPLE}", "E0107")
    return match


def _devices(context: Context) -> list[VDevice]:
    """Returns the devices of the module's list."""
    entries = [] if context.module is None else context.module.attributes.get(GLOBAL_INFOS, [])
    return devices_of(entries)


def _of_entry(context: Context, node: ast.expr) -> VDevice:
    """Returns the device of `I.vdevice(...)`: that of an equal entry in the list of the module."""
    entry = _entry(context, node)
    entries = [] if context.module is None else context.module.attributes.get(GLOBAL_INFOS, [])
    if entry in entries:
        return devices_of(entries)[entries.index(entry)]
    return _named(context, node, f"{kind_of(entry[0])}:{entry[1]}:{entry[2]}")


def _of_function(context: Context, node: ast.Call, scope: str = "") -> VDevice:
    """Parses `R.cpu(0)`, `R.cuda(1)` and `R.device(2, 1)`."""
    name = (path_of(node.func) or "").rpartition(".")[2]
    nodes = [*node.args, *[keyword.value for keyword in node.keywords]]
    values = [_literal(context, item) for item in nodes]
    if name == "device":
        first = values.pop(0) if values else None
        name = NAME_BY_TYPE.get(first, "") if isinstance(first, int) else str(first)
    index = values[0] if values else 0
    if name not in FUNCTIONS or len(values) > 1 or type(index) is not int or index < 0:
        raise _not_a_device(context, node)
    known = {device.target for device in _devices(context)}
    kind = KIND_BY_NAME.get(name, name)
    if kind == CPU:
        kind = next((k for k in CPU_KINDS if k in known), CPU)
    return _named(context, node, f"{kind}:{index}", scope)


def read_move(context: Context, node: ast.Call) -> Any:
    """Parses a move, also the hint of TVM: `(x, R.cuda(0), "global")`."""
    nodes = _arguments(context, node)
    x, device = operand(context, nodes[0]), nodes[1]
    vdevice = vdevice_of(context, device)
    scope = _literal(context, nodes[2]) if len(nodes) == 3 else ""
    if scope and isinstance(device, ast.Call) and path_of(device.func) != f"I.{VDEVICE}":
        vdevice = _of_function(context, device, scope)
    span = context.source_map.span(node)
    op: Any = find_op(MOVE)
    call: Call = op.definition.bind((x,), {"dst_vdevice": str(vdevice)}, span)
    return call


def _arguments(context: Context, node: ast.Call) -> list[ast.expr]:
    names = {name: index for index, group in enumerate(PARAMETERS) for name in group}
    nodes = dict(enumerate(node.args))
    nodes |= {names.get(str(k.arg), len(PARAMETERS)): k.value for k in node.keywords}
    if sorted(nodes) not in ([0, 1], [0, 1, 2]):
        message = f"expected a value and a device, found `{ast.unparse(node)}`"
        raise context.error(node, message, f'`R.{MOVE}(x, "cuda:0")`', "E0106")
    return [nodes[index] for index in sorted(nodes)]
