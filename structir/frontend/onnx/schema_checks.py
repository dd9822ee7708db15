"""Checks of nodes against ONNX's schemas: number and dtypes of operands, names and ranges of
attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import onnx
from onnx import AttributeProto, TensorProto

from structir.frontend.onnx.node import OnnxNode, alternatives, schema_of
from structir.frontend.onnx.tensors import element_type
from structir.ir.struct_info import TensorStructInfo

VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


@attrs.frozen(eq=False)
class NodeSchema:
    """The element types that the formal parameters of an op accept, and its attributes."""

    names: tuple[str, ...]  # type variables; of a variadic parameter the last one, repeated
    results: tuple[str, ...]  # type variables of the results
    allowed: dict[str, frozenset[str]]
    max_inputs: int
    max_outputs: int
    is_homogeneous: bool
    attributes: dict[str, int]  # the type of each attribute
    required: tuple[str, ...]  # names of required attributes


@cache
def node_schema(domain: str, name: str, version: int) -> NodeSchema | None:
    """Returns the schema of an op, or None without one."""
    schema = schema_of(domain, name, version)
    if schema is None or schema.deprecated:
        return None
    constraints = {
        c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints
    }
    names = tuple(formal.type_str for formal in schema.inputs)
    allowed = {each: constraints.get(each, frozenset([each])) for each in names}
    last = schema.inputs[-1] if schema.inputs else None
    is_homogeneous = last is None or last.option != VARIADIC or last.is_homogeneous
    return NodeSchema(
        names,
        tuple(formal.type_str for formal in schema.outputs),
        allowed,
        schema.max_input,
        schema.max_output,
        is_homogeneous,
        {name: a.type.value for name, a in schema.attributes.items()},
        tuple([name for name, a in schema.attributes.items() if a.required]),
    )


@cache
def type_string(dtype: str) -> str:
    """Returns ONNX's name of the tensor type of a dtype."""
    return f"tensor({TensorProto.DataType.Name(element_type(dtype)).lower()})"


def check_schema(node: OnnxNode) -> None:
    """Raises `DiagnosticError` if a node contradicts the schema of its op."""
    schema = node_schema(node.domain, node.op_type, node.version)
    if schema is None:
        return
    for kind, names, most in (
        ("operands", node.inputs, schema.max_inputs),
        ("results", node.outputs, schema.max_outputs),
    ):
        if len(names) > most:
            node.fail(f"expected at most {most} {kind}, found {len(names)}")
    _check_attributes(node, schema)
    _check_ranges(node)
    _check_dtypes(node, schema)


def _check_attributes(node: OnnxNode, schema: NodeSchema) -> None:
    for name, attribute in node.attributes.items():
        expected = schema.attributes.get(name)
        if expected is None:
            names = ", ".join(sorted(schema.attributes))
            hint = f"remove it; the op has the attributes {names}" if names else "remove it"
            node.fail(f"unexpected attribute {name!r}", hint)
        if attribute.type != expected:
            type_name = AttributeProto.AttributeType.Name
            message = f"expected an attribute of type {type_name(expected)}"
            node.fail(f"{name}: {message}, found {type_name(attribute.type)}")
    for name in schema.required:
        if name not in node.attributes:
            node.fail(f"missing attribute {name!r}")


def _check_dtypes(node: OnnxNode, schema: NodeSchema) -> None:
    """Raises `DiagnosticError` if the dtype of an operand is not allowed, or differs from that of
    an operand that must have the same one."""
    bound: dict[str, int] = {}
    for index in range(len(node.values)):
        info = getattr(node.get(index), "struct_info", None)
        if not isinstance(info, TensorStructInfo) or info.dtype is None:
            continue
        is_variadic = index >= len(schema.names) - 1 and not schema.is_homogeneous
        variable = schema.names[min(index, len(schema.names) - 1)]
        allowed = schema.allowed[variable]
        if type_string(info.dtype) not in allowed:
            node.fail(
                f"operand {node.label(index)}: expected {_dtypes(allowed)}, found {info.dtype}"
            )
        first = bound.setdefault(variable, index)
        if not is_variadic and node.info(first).dtype != info.dtype:
            node.fail(
                f"operand {node.label(index)}: expected dtype {node.info(first).dtype}, the dtype "
                f"of operand {node.label(first)}, found {info.dtype}",
                f'insert `helper.make_node("CastLike", ["{node.inputs[index]}", '
                f'"{node.inputs[first]}"], ["{node.inputs[index]}_cast"])`',
            )


def _dtypes(allowed: frozenset[str]) -> str:
    return f"a value of type {alternatives(sorted(allowed))}"


# ---- ranges of attributes

Predicate = Callable[[Any], bool]


@attrs.frozen
class AttributeRange:
    """The values that ONNX allows for an attribute, and their description."""

    text: str
    holds: Predicate


POSITIVE = AttributeRange("a positive number", lambda value: value > 0)
NON_NEGATIVE = AttributeRange("0 or more", lambda value: value >= 0)
NON_NEGATIVES = AttributeRange("numbers of 0 or more", lambda values: all(v >= 0 for v in values))
POSITIVES = AttributeRange("positive numbers", lambda values: all(v > 0 for v in values))
PROBABILITY = AttributeRange("a number from 0 to 1", lambda value: 0 <= value <= 1)


def one_of(*options: Any) -> AttributeRange:
    """Returns the range of these values."""
    return AttributeRange(alternatives(options), lambda value: value in options)


FLAG = one_of(0, 1)
REDUCTION = one_of("none", "sum", "mean")
RANGES: dict[tuple[str, str], AttributeRange] = {
    ("Attention", "scale"): POSITIVE,
    ("Attention", "qk_matmul_output_mode"): one_of(0, 1, 2, 3),
    ("Attention", "is_causal"): FLAG,
    ("Attention", "softmax_precision"): one_of(*(1, 10, 11, 16)),
    ("Col2Im", "pads"): NON_NEGATIVES,
    ("Dropout", "ratio"): PROBABILITY,
    ("GlobalLpPool", "p"): POSITIVE,
    ("LRN", "size"): POSITIVE,
    ("LpPool", "p"): POSITIVE,
    ("NegativeLogLikelihoodLoss", "reduction"): REDUCTION,
    ("RoiAlign", "output_height"): POSITIVE,
    ("RoiAlign", "output_width"): POSITIVE,
    ("RoiAlign", "sampling_ratio"): NON_NEGATIVE,
    ("RoiAlign", "spatial_scale"): POSITIVE,
    ("RotaryEmbedding", "interleaved"): FLAG,
    ("SoftmaxCrossEntropyLoss", "reduction"): REDUCTION,
    **{
        (op, name): attribute_range
        for op in ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "DeformConv")
        for name, attribute_range in (
            ("group", POSITIVE),
            ("pads", NON_NEGATIVES),
            ("kernel_shape", POSITIVES),
        )
    },
    **{
        (op, name): attribute_range
        for op in ("AveragePool", "LpPool", "MaxPool", "MaxUnpool")
        for name, attribute_range in (("pads", NON_NEGATIVES), ("kernel_shape", POSITIVES))
    },
}


def _check_ranges(node: OnnxNode) -> None:
    """Raises `DiagnosticError` if an attribute is outside of the range that ONNX states."""
    for name in node.attributes:
        attribute_range = None if node.domain else RANGES.get((node.op_type, name))
        value = node.attr(name) if attribute_range is not None else None
        if attribute_range is not None and not attribute_range.holds(value):
            actual = list(value) if isinstance(value, tuple) else repr(value)
            node.fail(f"{name}: expected {attribute_range.text}, found {actual}")
