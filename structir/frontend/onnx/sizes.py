"""Sizes from operands: known sizes directly, data-dependent sizes bound with `match_cast`."""

from __future__ import annotations

from collections.abc import Sequence

from structir.frontend.onnx.node import OnnxNode
from structir.ir.dims import Dim, Poly
from structir.ir.expr import Expr
from structir.ir.requirements import cast_of
from structir.ir.struct_info import ShapeStructInfo, TensorStructInfo
from structir.script import R


def sizes_of(node: OnnxNode, index: int, length: int | None = None) -> tuple[Dim, ...]:
    """Returns the elements of an operand as sizes; unknown ones are bound with `match_cast`.

    A vector of unknown length is cast to `length` elements.
    """
    if node.elements(index) is not None:
        return node.sizes(index)
    expr = node[index]
    if node.rank(index) == 0:
        expr = R.expand_dims(expr, [0])
    info = node.tensor_info(expr)
    if length is not None and not (isinstance(info.dims, tuple) and isinstance(info.dims[0], int)):
        declared = TensorStructInfo((length,), info.dtype)
        builder = node.importer.builder
        expr = builder.match_cast(node.emit(expr), declared, node.part_name(), node.span)
    value, known = node.values[index], node.tensor_info(expr).dims
    if isinstance(known, tuple) and isinstance(known[0], Poly):
        message = f"operand {node.label(index)}: expected a vector of static length"
        node.fail(f"{message}, found {info}", node.static_size_hint(index))
    return run_time_sizes(node, expr, frozenset() if value is None else value.sources)


def run_time_sizes(
    node: OnnxNode, expr: Expr, sources: frozenset[str] | None = None
) -> tuple[Dim, ...]:
    """Returns the elements of an integer vector as fresh symbolic sizes, bound with `match_cast`;
    `sources` are the graph inputs that fix them, by default those of all operands."""
    if sources is None:
        sources = frozenset().union(*[v.sources for v in node.values if v is not None])
    info = node.tensor_info(expr)
    count = info.dims[0] if isinstance(info.dims, tuple) and info.ndim == 1 else None
    if not isinstance(count, int):
        node.fail(f"expected a shape vector of static length, found {info}")
    if info.dtype != "int64":
        expr = R.astype(expr, "int64")
    symbols = node.importer.symbols
    stem = node.part_name()
    sizes: tuple[Dim, ...] = tuple([symbols.fresh(f"{stem}_{i}", sources) for i in range(count)])
    shape = node.emit(R.tensor_to_shape(expr))
    node.importer.builder.match_cast(shape, ShapeStructInfo(sizes), stem, node.span)
    return sizes


def require(node: OnnxNode, conditions: Sequence[Dim]) -> None:
    """Requires conditions on sizes at run time, as `R.require` does in program text."""
    open_conditions = tuple([condition for condition in conditions if condition != 1])
    if open_conditions:
        value, info = cast_of(open_conditions, node.span)
        node.importer.builder.match_cast(value, info, node.part_name(), node.span)
