"""Checks of nodes against the shapes that ONNX states for the operands of their ops.

Operands of unknown rank are cast to the shape that the op and its other operands fix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.shape_patterns import (
    ANY,
    Shape,
    ShapeUnifier,
    known_rank,
    parsed_patterns,
)
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, ShapeExpr, Var
from structir.ir.registry import RegistrationTable
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


@attrs.frozen(eq=False)
class OperandShapes:
    """The shape patterns of the operands of a node, None for any shape; known sizes by name."""

    patterns: Sequence[str | None]
    sizes: Mapping[str, Dim] = attrs.Factory(dict)


ShapeRule = Callable[[OnnxNode], OperandShapes | Sequence[str | None]]
shape_rule: RegistrationTable[str, ShapeRule] = RegistrationTable()  # the operand shapes of ops


def check_shapes(node: OnnxNode) -> None:
    """Raises `DiagnosticError` if the shapes of the operands contradict the op; casts operands of
    unknown rank."""
    rule = shape_rule.get(node.op_type) if node.domain == "" else None
    if rule is None:
        return
    shapes = rule(node)
    if not isinstance(shapes, OperandShapes):
        shapes = OperandShapes(shapes)
    unifier = ShapeUnifier(dict(shapes.sizes))
    stated = [(k, p) for k, p in enumerate(shapes.patterns) if p is not None and node.has(k)]
    stated.sort(key=lambda entry: parsed_patterns(entry[1])[0].one_way)
    for index, pattern in stated:
        shape = known_shape(node, index)
        if shape is not None and not unifier.unify(pattern, shape):
            node.fail(
                f"operand {node.label(index)}: {_mismatch(unifier, pattern, shape)}",
                _hint(node, index, unifier, pattern),
            )
    for index, pattern in stated:
        if _is_unranked(node, index) and known_rank(pattern, unifier.rows):
            _cast(node, index, unifier, pattern)


def _mismatch(unifier: ShapeUnifier, pattern: str, shape: Shape) -> str:
    """Returns what a pattern expects and the shape that it found."""
    text, alternatives = unifier.text(pattern), parsed_patterns(pattern)
    ranks = {len(each.items) for each in alternatives}
    rows = any(item.is_row for each in alternatives for item in each.items)
    if len(shape) not in ranks and len(ranks) == 1 and not rows and not alternatives[0].one_way:
        (rank,) = ranks
        axis_word = "axis" if rank == 1 else "axes"
        return f"expected {rank} {axis_word}, {text}, found {len(shape)}: {dims_text(shape)}"
    expected = text if alternatives[0].one_way else f"shape {text}"
    return f"expected {expected}, found {dims_text(shape)}"


def dims_text(shape: Shape) -> str:
    """Returns a shape as a tuple."""
    return f"({', '.join(map(dims.text, shape))}{',' * (len(shape) == 1)})"


def known_shape(node: OnnxNode, index: int) -> Shape | None:
    """Returns the shape of an operand, or None if it is absent or unknown."""
    info = getattr(node.get(index), "struct_info", None)
    sizes = info.dims if isinstance(info, TensorStructInfo) else None
    return sizes if isinstance(sizes, tuple) else None


def _is_unranked(node: OnnxNode, index: int) -> bool:
    info = getattr(node.get(index), "struct_info", None)
    return isinstance(info, TensorStructInfo) and info.ndim is None


def _hint(node: OnnxNode, index: int, unifier: ShapeUnifier, pattern: str) -> str | None:
    """Returns the edit of an input or a constant whose shape is known."""
    operand, name = node[index], node.inputs[index]
    first = parsed_patterns(pattern)[0]
    sizes = [unifier.size_of(item) for item in first.items if not item.is_row]
    if len(sizes) < len(first.items) or not all(isinstance(size, int) for size in sizes):
        return None
    if isinstance(operand, Constant):
        array = f'np.ones({sizes}, "{operand.data.dtype.name}")'
        return f'store a constant of this shape: `numpy_helper.from_array({array}, "{name}")`'
    if isinstance(operand, Var) and operand.name == name and node.values[index].sources == {name}:  # type: ignore[union-attr]
        return f'declare the input: `helper.make_tensor_value_info("{name}", dtype, {sizes})`'
    return None


def _cast(node: OnnxNode, index: int, unifier: ShapeUnifier, pattern: str) -> None:
    """Casts an operand of unknown rank to its pattern; unknown sizes become fresh symbols."""
    (alternative,) = parsed_patterns(pattern)
    name = node.inputs[index] or node.part_name()
    sizes: list[Dim] = []
    for item in alternative.items:
        if item.is_row:
            sizes.extend(unifier.rows[item.name])
            continue
        size = unifier.size_of(item)
        if size is None:
            size = node.importer.symbols.fresh(f"{name}_{len(sizes)}")
            if item.is_named and item.name != ANY:
                unifier.sizes[item.name] = size
        sizes.append(size)
    node.cast_operand(index, tuple(sizes))


def broadcast_one_way(node: OnnxNode, index: int, target: Shape | None) -> Expr:
    """Returns an operand that broadcasts to a shape, but not the shape to it: broadcast unless
    both shapes prove it."""
    if target is None or _fits_one_way(known_shape(node, index), target):
        return node[index]
    return R.broadcast_to(node[index], ShapeExpr(target))


def _fits_one_way(shape: Shape | None, target: Shape) -> bool:
    """Returns whether a shape surely broadcasts to `target`."""
    if shape is None or len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return all(dims.equal(size, 1) is True or dims.equal(size, d) is True for size, d in pairs)


def spatial_rank(node: OnnxNode, *operands: int) -> int | None:
    """Returns the number of spatial axes by the rank of an operand, else by the attributes."""
    for index in operands:
        shape = known_shape(node, index)
        if shape is not None and len(shape) > 2:
            return len(shape) - 2
    for name in ("kernel_shape", "strides", "dilations", "output_padding", "output_shape"):
        values = node.attr(name, None)
        if values:
            return len(values)
    pads = node.attr("pads", None)
    return len(pads) // 2 if pads else None


def axes(prefix: str, count: int | None) -> str:
    """Returns the pattern of `count` named axes; a row of axes if the count is unknown."""
    return f"*{prefix}" if count is None else " ".join([f"{prefix}{k}" for k in range(count)])
