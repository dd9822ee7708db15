"""The text of operations: the short form of common ones, the generic form of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structir.export.stablehlo.tensors import HloTensor


def operation_text(
    op: str,
    operands: Sequence[HloTensor],
    types: Sequence[str],
    attributes: Mapping[str, str],
    regions: Sequence[str],
) -> str:
    """Returns an operation after the names of its results; one without a dialect is StableHLO's."""
    name = op if "." in op else f"stablehlo.{op}"
    values = ", ".join([o.name for o in operands])
    inputs = ", ".join([o.type for o in operands])
    results = types[0] if len(types) == 1 else f"({', '.join(types)})"
    if op == "return" and operands:
        return f"{name} {values} : {inputs}"
    if op == "constant":
        return f"{name} {attributes['value']}"
    if not attributes and not regions and operands:
        if {o.type for o in operands} == {*types} and name.startswith("stablehlo."):
            return f"{name} {values} : {results}"
    listed = ", ".join([f"{key} = {value}" for key, value in attributes.items()])
    text = f'"{name}"({values})'
    text += f" <{{{listed}}}>" if listed else ""
    text += f" ({', '.join(regions)})" if regions else ""
    return f"{text} : ({inputs}) -> {results}"
