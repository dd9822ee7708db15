"""The text of operations: the short form of common ones, the generic form of others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from structir.export.stablehlo.tensors import HloTensor

Attributes = Mapping[str, str]


def operation_text(
    op: str,
    operands: Sequence[HloTensor],
    types: Sequence[str],
    attributes: Attributes,
    regions: Sequence[str],
    applies: str = "",
) -> str:
    """Returns an operation after the names of its results; one without a dialect is StableHLO's.

    `applies` names the operation of the only region, where that combines its two parameters.
    """
    name = op if "." in op else f"stablehlo.{op}"
    values = ", ".join([o.name for o in operands])
    inputs = ", ".join([o.type for o in operands])
    results = types[0] if len(types) == 1 else f"({', '.join(types)})"
    signature = f"({inputs}) -> {results}"
    form = FORMS.get(op)
    if form is not None:
        return f"{name} {form(values, attributes)} : {signature}"
    if op == "reduce" and applies:
        x, start = operands
        dims = numbers(attributes["dimensions"])
        across = f"stablehlo.{applies} across dimensions = {dims}"
        return f"{name}({x.name} init: {start.name}) applies {across} : {signature}"
    if op in SHORT:
        return f"{name} {SHORT[op](values, inputs, results, attributes)}".rstrip()
    plain = name.startswith("stablehlo.") and not attributes and not regions
    if plain and operands and {o.type for o in operands} == {*types}:
        return f"{name} {values} : {results}"
    listed = ", ".join([f"{key} = {value}" for key, value in attributes.items()])
    text = f'"{name}"({values})'
    text += f" <{{{listed}}}>" if listed else ""
    text += f" ({', '.join(regions)})" if regions else ""
    return f"{text} : {signature}"


def numbers(attribute: str) -> str:
    """Returns an attribute of 64-bit integers as a list."""
    return f"[{attribute.removeprefix('array<i64').removesuffix('>').removeprefix(': ')}]"


def _with_dims(key: str) -> Callable[[str, Attributes], str]:
    return lambda values, attributes: f"{values}, dims = {numbers(attributes[key])}"


def _with_dim(values: str, attributes: Attributes) -> str:
    return f"{values}, dim = {attributes['dimension'].removesuffix(' : i64')}"


def _compare(values: str, attributes: Attributes) -> str:
    direction = attributes["comparison_direction"].removesuffix(">").rpartition(" ")[2]
    return f"{direction}, {values}"


def _slice(values: str, attributes: Attributes) -> str:
    keys = ("start_indices", "limit_indices", "strides")
    bounds = zip(*[re.findall(r"-?\d+", numbers(attributes[key])) for key in keys], strict=True)
    parts = [f"{a}:{b}" if step == "1" else f"{a}:{b}:{step}" for a, b, step in bounds]
    return f"{values} [{', '.join(parts)}]"


def _dot_general(values: str, attributes: Attributes) -> str:
    lists = re.findall(r"= (\[[^]]*\])", attributes["dot_dimension_numbers"])
    batch = f", batching_dims = {lists[0]} x {lists[1]}" if lists[0] != "[]" else ""
    return f"{values}{batch}, contracting_dims = {lists[2]} x {lists[3]}"


FORMS: dict[str, Callable[[str, Attributes], str]] = {
    "broadcast_in_dim": _with_dims("broadcast_dimensions"),
    "compare": _compare,
    "concatenate": _with_dim,
    "convert": lambda values, _: values,
    "dot_general": _dot_general,
    "dynamic_broadcast_in_dim": _with_dims("broadcast_dimensions"),
    "dynamic_reshape": lambda values, _: values,
    "get_dimension_size": _with_dim,
    "reshape": lambda values, _: values,
    "slice": _slice,
    "transpose": _with_dims("permutation"),
}
SHORT: dict[str, Callable[[str, str, str, Attributes], str]] = {
    "constant": lambda values, inputs, results, attributes: attributes["value"],
    "iota": lambda values, inputs, results, attributes: (
        f"dim = {attributes['iota_dimension'].removesuffix(' : i64')} : {results}"
    ),
    "return": lambda values, inputs, results, attributes: f"{values} : {inputs}" if values else "",
    "select": lambda values, inputs, results, attributes: (
        f"{values} : {inputs.split(', ')[0]}, {results}"
    ),
}
