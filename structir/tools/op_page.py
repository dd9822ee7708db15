"""Generates the page of all ops: `python -m structir.tools.op_page docs/ops.md`."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from structir.ir.expr import Call, Var, VarBinding
from structir.ir.op import registered_ops
from structir.ir.struct_info import OBJECT, TensorStructInfo
from structir.loops.program.expression import NoKernelError
from structir.loops.regions.data_dependent import counted
from structir.loops.regions.region import RegionLowering
from structir.opdef.define import SignatureOpDefinition
from structir.opdef.diagnostics import signature_text
from structir.opdef.dtypes import FAMILIES
from structir.opdef.examples import ExactValues, Sample
from structir.opdef.gradient import describe_gradient
from structir.opdef.notation import OperandAccess
from structir.opdef.parameters import Parameter, shown
from structir.targets.cuda.portable import device_routine

HEADER = """# Ops

This page lists every op: index signature, attributes, dtypes, backends and gradient. Use it to look
up an op; [extend.md](extend.md) declares a new one.

Each op is declared by an index signature and a body. The signature maps elements of operands to
elements of results: `i` is an index variable, `*s` a row variable (any number of axes), `~s` a row
variable that broadcasts, `[i]` an axis that the body receives whole, `i : n` an index variable with
its size, and `flat` and `join` combine several index variables to one axis. `@` is followed by the
dtype{dtypes}. Without it all dtypes are equal. A signature that depends on attributes is shown for
an example.

The tables list the backends for the examples of an op: *kernel* is compiled code, *host* is the
NumPy reference, and *none* means that the CUDA backend rejects the op at compile time. Gradients
are derived from signature and body as the op `grad.adjoint`, through the decomposition, or by a
rule. Limits: dtypes are never promoted, and a column of backends covers only the examples.
"""


def page() -> str:
    """Returns the page in Markdown."""
    families: dict[str, list[SignatureOpDefinition]] = defaultdict(list)
    for op in registered_ops():
        definition = op.definition
        if isinstance(definition, SignatureOpDefinition) and _is_builtin(definition):
            families[definition.body.__module__].append(definition)
    dtype_families = ", ".join([f"`{name}` {text}" for name, (_, text) in FAMILIES.items()])
    parts = [HEADER.format(dtypes=f" ({dtype_families})")]
    for module, definitions in sorted(families.items()):
        title = (sys.modules[module].__doc__ or module).split("\n\n")[0].replace("\n", " ")
        parts.append(f"## {title.rstrip('.')}\n")
        parts.append(table(definitions))
        parts += [entry(definition) for definition in definitions]
    return "\n".join(parts)


def _is_builtin(definition: SignatureOpDefinition) -> bool:
    return definition.body.__module__.startswith("structir.")


def table(definitions: Iterable[SignatureOpDefinition]) -> str:
    """Returns the table of a family of ops."""
    rows = [
        "| op | index signature | attributes | dtypes | backends | gradient |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*rows, *[_row(definition) for definition in definitions]]) + "\n"


def _row(definition: SignatureOpDefinition) -> str:
    call = example_call(definition)
    signature = definition.resolve(call).index_signature
    text = (
        definition.index_signature
        if isinstance(definition.index_signature, str)
        else signature_text(signature)
    )
    attributes = [f"`{p.name}`" for p in definition.signature.parameters if p.kind is not None]
    cells = [
        f"`{definition.name}`",
        f"`{text}`",
        ", ".join(attributes),
        f"`{_dtypes(signature.operands)}` to `{_dtypes(signature.results)}`",
        f"cpu: {backend(definition, call)}, cuda: {device_backend(definition, call)}",
        describe_gradient(definition, call) or "unknown",
    ]
    return f"| {' | '.join(cells)} |"


def _dtypes(accesses: Iterable[OperandAccess]) -> str:
    return ", ".join(dict.fromkeys([" or ".join(access.dtypes) for access in accesses])) or "-"


def backend(definition: SignatureOpDefinition, call: Call) -> str:
    """Returns whether the CPU backend compiles a call or runs it on the host."""
    return "kernel" if _has_kernel(RegionLowering(), call) else "host"


def device_backend(definition: SignatureOpDefinition, call: Call) -> str:
    """Returns whether the CUDA backend has a kernel for a call."""
    return "kernel" if _has_kernel(RegionLowering(routine_of=device_routine), call) else "none"


def _has_kernel(lowering: RegionLowering, call: Call) -> bool:
    """Returns whether kernels compute a call, perhaps after a count of its elements."""
    binding = VarBinding(Var("y", call.struct_info or OBJECT), call)
    if counted(binding) != (binding,):
        return True
    try:
        lowering.add(binding)
    except NoKernelError:
        return False
    return True


def example_call(definition: SignatureOpDefinition) -> Call:
    """Returns the first example as a call over variables."""
    args, keywords = definition.sampled[0]
    return definition(*map(_as_variable, args), **{n: _as_variable(a) for n, a in keywords.items()})


def entry(definition: SignatureOpDefinition) -> str:
    """Returns the section of one op: call, description, and a fixed list of properties."""
    call = example_call(definition)
    signature = definition.resolve(call).index_signature
    kinds = [_kind(p) for p in definition.signature.parameters if p.kind is not None]
    properties = {
        "Index signature": _signature(definition),
        "Attributes": "; ".join(kinds) or "none",
        "Operand dtypes": f"`{_dtypes(signature.operands)}`",
        "Result dtypes": f"`{_dtypes(signature.results)}`",
        "Implementation": _implementation(definition),
        "Gradient": describe_gradient(definition, call) or "unknown",
    }
    doc = "\n\n".join([" ".join(part.split()) for part in definition.doc.split("\n\n")])
    listed = "\n".join([f"- **{name}:** {value}" for name, value in properties.items()])
    return f"### `R.{definition.signature}`\n\n{doc.strip()}\n\n{listed}\n"


def _kind(parameter: Parameter) -> str:
    kind = parameter.kind
    assert kind is not None
    or_none = ", or None" if parameter.optional else ""
    return f"`{parameter.name}`: {kind.expected}{or_none}"


def _signature(definition: SignatureOpDefinition) -> str:
    if not callable(definition.index_signature):
        conditions = [c for c in (definition.where, definition.on) if c]
        extra = f", where `{', '.join(conditions)}`" if conditions else ""
        placed = [f"`{i}` at `{name}`" for i, name in definition.at.items()]
        return f"`{definition.index_signature}`{extra}{', ' + ', '.join(placed) if placed else ''}"
    description = " ".join((inspect.getdoc(definition.index_signature) or "").split()).removeprefix(
        "Returns "
    )
    return f"{description} {_example_signature(definition)}".strip()


def _example_signature(definition: SignatureOpDefinition) -> str:
    """Returns the index signature of the first example."""
    if not definition.samples:
        return ""
    _, keywords = definition.samples[0]
    call = example_call(definition)
    stated = [f"{name}={shown(value)}" for name, value in keywords.items()]
    at = f" with {', '.join(stated)}" if stated else ""
    return f"For example{at}: `{signature_text(definition.resolve(call).index_signature)}`."


def _as_variable(value: Any) -> Any:
    """Returns an example argument as a variable of its shape and dtype."""
    if isinstance(value, list):
        return [_as_variable(item) for item in value]
    if not isinstance(value, Sample | ExactValues):
        return value
    array = value.array()
    return Var("x", TensorStructInfo(array.shape, array.dtype.name))


def _implementation(definition: SignatureOpDefinition) -> str:
    if definition.parts or "decompose" in definition.hooks:
        return "decomposition into other ops"
    if "reference" in definition.hooks:
        return "routine"
    reduction = f", reduced by {definition.reduce}" if definition.reduce else ""
    return f"scalar expression per iteration point{reduction}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
