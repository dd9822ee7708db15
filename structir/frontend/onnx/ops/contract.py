"""Matrix products and Einstein sums."""

from __future__ import annotations

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import direct, onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.onnx.shape_checks import broadcast_one_way, known_shape
from structir.frontend.onnx.shape_patterns import Shape
from structir.ir.dtype import is_float
from structir.ir.expr import Expr, Tuple
from structir.script import R

direct({"MatMul": R.matmul})


@onnx_op("Gemm")
def gemm(node: OnnxNode) -> Expr:
    lhs, rhs = node[0], node[1]
    lhs = R.permute_dims(lhs, [1, 0]) if node.flag("transA") else lhs
    rhs = R.permute_dims(rhs, [1, 0]) if node.flag("transB") else rhs
    result = _scale(node, R.matmul(lhs, rhs), node.attr("alpha", 1.0))
    if not node.has(2):
        return result
    bias = broadcast_one_way(node, 2, _result_shape(node))
    return R.add(result, _scale(node, bias, node.attr("beta", 1.0)))


def _result_shape(node: OnnxNode) -> Shape | None:
    lhs, rhs = known_shape(node, 0), known_shape(node, 1)
    if lhs is None or rhs is None:
        return None
    return lhs[1 if node.flag("transA") else 0], rhs[0 if node.flag("transB") else 1]


def _scale(node: OnnxNode, x: Expr, factor: float) -> Expr:
    if factor == 1.0:
        return x
    if is_float(node.dtype()):
        return R.multiply(x, like(node, factor))
    product = R.multiply(R.astype(x, "float64"), factor)
    return R.astype(product, node.dtype())


@onnx_op("Einsum")
def einsum(node: OnnxNode) -> Expr:
    equation = node.attr("equation").replace(" ", "")
    return R.einsum(Tuple(tuple(node.operands)), subscripts=equation)


@onnx_op("Det")
def det(node: OnnxNode) -> Expr:
    """Builds the determinant of static matrices up to 4 x 4 by cofactor expansion."""
    *_, n, m = node.static_dims()
    if n != m or n > 4:
        node.fail(f"expected square matrices of at most 4 x 4, found {n} x {m}")
    rows = [[_entry(node, i, j) for j in range(n)] for i in range(n)]
    return _determinant(rows)


def _entry(node: OnnxNode, i: int, j: int) -> Expr:
    last = node.rank() - 1
    cut = R.strided_slice(node[0], [last - 1, last], [i, j], [i + 1, j + 1])
    return node.emit(R.squeeze(cut, [last - 1, last]))


def _determinant(rows: list[list[Expr]]) -> Expr:
    """Returns the determinant by cofactor expansion along the first row."""
    if len(rows) == 1:
        return rows[0][0]
    total: Expr | None = None
    for j, entry in enumerate(rows[0]):
        minor = _determinant([[*row[:j], *row[j + 1 :]] for row in rows[1:]])
        term = R.multiply(entry, minor)
        signed = R.negative(term) if j % 2 else term
        total = signed if total is None else R.add(total, signed)
    assert total is not None
    return total
