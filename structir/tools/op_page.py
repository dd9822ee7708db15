"""The page of all ops: `python -m structir.tools.op_page docs/ops.md` writes it anew."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from structir.backend.cuda.counted import counted
from structir.backend.cuda.portable import device_routine
from structir.backend.loops.from_point import NoKernelError
from structir.backend.region import RegionLowering
from structir.ir.expr import Call, Var, VarBinding
from structir.ir.op import registered_ops
from structir.ir.struct_info import OBJECT, TensorStructInfo
from structir.opdef.define import SignatureOpDefinition
from structir.opdef.diagnostics import line_text
from structir.opdef.dtypes import FAMILIES
from structir.opdef.examples import ExactValues, Sample
from structir.opdef.gradient import describe_gradient
from structir.opdef.notation import OperandAccess
from structir.opdef.parameters import Parameter, shown

HEADER = """# Every op

Each op is declared in one place, by a line and a body. The line says which element of each operand
meets which element of the result: `i` is an axis, `*s` a row of axes, `~s` a row that broadcasts,
`[i]` an axis that the body sees whole, `i : n` an index and a size apart, `flat` and `join` axes
made of several. After `@` stands the dtype{dtypes};
without it all dtypes are equal. Where the line depends on the attributes, it is told in words.

In the tables, backends tell what runs an op's examples: a *kernel* is made from its line or its
parts, or is its own; *host* is the NumPy reference. Where the CUDA backend has *none*, a program
with the op is refused before it runs. A gradient comes from the line and body of the
op as the op `grad.adjoint`, through its parts, or by a rule; otherwise the table says why there is
none.
"""


def page() -> str:
    """The whole page."""
    families: dict[str, list[SignatureOpDefinition]] = defaultdict(list)
    for op in registered_ops():
        definition = op.definition
        if isinstance(definition, SignatureOpDefinition) and _is_ours(definition):
            families[definition.body.__module__].append(definition)
    known = ", ".join([f"`{name}` {text}" for name, (_, text) in FAMILIES.items()])
    parts = [HEADER.format(dtypes=f" ({known})")]
    for module, definitions in sorted(families.items()):
        title = (sys.modules[module].__doc__ or module).split("\n\n")[0].replace("\n", " ")
        parts.append(f"## {title.rstrip('.')}\n")
        parts.append(table(definitions))
        parts += [entry(definition) for definition in definitions]
    return "\n".join(parts)


def _is_ours(definition: SignatureOpDefinition) -> bool:
    return definition.body.__module__.startswith("structir.")


def table(definitions: Iterable[SignatureOpDefinition]) -> str:
    """The ops of a family at a glance."""
    rows = [
        "| op | line | attributes | dtypes | backends | gradient |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*rows, *[_row(definition) for definition in definitions]]) + "\n"


def _row(definition: SignatureOpDefinition) -> str:
    call = example_call(definition)
    line = definition.resolve(call).line
    text = definition.line if isinstance(definition.line, str) else line_text(line)
    attributes = [f"`{p.name}`" for p in definition.signature.parameters if p.kind is not None]
    cells = [
        f"`{definition.name}`",
        f"`{text}`",
        ", ".join(attributes),
        f"`{_dtypes(line.operands)}` to `{_dtypes(line.results)}`",
        f"cpu: {backend(definition, call)}, cuda: {device_backend(definition, call)}",
        describe_gradient(definition, call) or "not said",
    ]
    return f"| {' | '.join(cells)} |"


def _dtypes(accesses: Iterable[OperandAccess]) -> str:
    return ", ".join(dict.fromkeys([" or ".join(access.dtypes) for access in accesses])) or "-"


def backend(definition: SignatureOpDefinition, call: Call) -> str:
    """What the CPU backend runs a call by."""
    try:
        RegionLowering().add(VarBinding(Var("y", call.struct_info or OBJECT), call))
    except NoKernelError:
        return "host"
    return "kernel"


def device_backend(definition: SignatureOpDefinition, call: Call) -> str:
    """Whether the CUDA backend has a kernel for a call."""
    lowering, binding = (
        RegionLowering(routine_of=device_routine),
        VarBinding(Var("y", call.struct_info or OBJECT), call),
    )
    if counted(binding) != (binding,):
        return "kernel"
    try:
        lowering.add(binding)
    except NoKernelError:
        return "none"
    return "kernel"


def example_call(definition: SignatureOpDefinition) -> Call:
    """The first example, over variables."""
    args, keywords = definition.sampled[0]
    return definition(*map(_stand_in, args), **{n: _stand_in(a) for n, a in keywords.items()})


def entry(definition: SignatureOpDefinition) -> str:
    """One op: its signature, its line, what it does, and how it is computed."""
    doc = " ".join(definition.doc.split())
    kinds = [_kind(p) for p in definition.signature.parameters if p.kind is not None]
    told = "".join([f"- {kind}\n" for kind in kinds])
    lines = [f"### `{definition.signature}`\n", f"{doc}\n", f"- line: {_line(definition)}"]
    return "\n".join(lines) + f"\n{told}- computed {_way(definition)}\n"


def _kind(parameter: Parameter) -> str:
    kind = parameter.kind
    assert kind is not None
    or_none = ", or None" if parameter.optional else ""
    return f"`{parameter.name}`: {kind.expected}{or_none}"


def _line(definition: SignatureOpDefinition) -> str:
    if not callable(definition.line):
        conditions = [c for c in (definition.where, definition.on) if c]
        extra = f", where `{', '.join(conditions)}`" if conditions else ""
        placed = [f"`{i}` at `{name}`" for i, name in definition.at.items()]
        return f"`{definition.line}`{extra}{', ' + ', '.join(placed) if placed else ''}"
    told = " ".join((inspect.getdoc(definition.line) or "").split())
    return f"{told} {_shown(definition)}".strip()


def _shown(definition: SignatureOpDefinition) -> str:
    """What the line says at the first example."""
    if not definition.samples:
        return ""
    _, keywords = definition.samples[0]
    call = example_call(definition)
    stated = [f"{name}={shown(value)}" for name, value in keywords.items()]
    at = f" with {', '.join(stated)}" if stated else ""
    return f"For example{at}: `{line_text(definition.resolve(call).line)}`."


def _stand_in(value: Any) -> Any:
    """An example's argument as a variable of its shape and dtype."""
    if isinstance(value, list):
        return [_stand_in(item) for item in value]
    if not isinstance(value, Sample | ExactValues):
        return value
    array = value.array()
    return Var("x", TensorStructInfo(array.shape, array.dtype.name))


def _way(definition: SignatureOpDefinition) -> str:
    if definition.parts or "decompose" in definition.hooks:
        return "from its parts, other ops"
    if "reference" in definition.hooks:
        return "by a routine of its own"
    return (
        f"at each point, combined by {definition.reduce}" if definition.reduce else "at each point"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
