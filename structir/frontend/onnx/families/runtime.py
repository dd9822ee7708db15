"""Ops of ONNX Runtime's own domain: quantised ones, and those that stand for several others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.frontend.onnx.families.quantise import quantised, spread
from structir.frontend.onnx.node import Node
from structir.frontend.onnx.registry import DEFAULT, MICROSOFT, find_build, onnx_op
from structir.frontend.onnx.scalars import like, number
from structir.frontend.onnx.values import Value
from structir.ir.expr import Expr
from structir.script import R


def standard(node: Node, name: str, operands: Sequence[Expr | None]) -> list[Any]:
    """What an op of the default domain makes of operands, with the attributes of a node."""
    version = node.attr("opset", None) or node.names.opsets.get(DEFAULT, 1)
    values = [None if e is None else Value(node.emit(e)) for e in operands]
    inner = Node(node.proto, int(version), values, node.importer, node.names, node.place)
    inner.domain, inner.op_type = DEFAULT, name
    build = find_build(DEFAULT, name, int(version))
    if build is None:
        node.fail(f"opset {version} has no {name}")
    made = build(inner)
    return list(made) if isinstance(made, list | tuple) else [made]


def real(node: Node, place: int, axis: int | None = None) -> Expr:
    """A quantised operand as floats: its scale and its zero point follow it."""
    x: Expr = R.astype(node[place], "float32")
    if node.has(place + 2):
        x = R.subtract(x, R.astype(spread(node, place + 2, axis, place), "float32"))
    return R.multiply(x, spread(node, place + 1, axis, place))


def small(node: Node, x: Expr, scale: int, dtype: str | None = None) -> Expr:
    """Floats as the integers that an output's scale and zero point, in these places, tell of."""
    zero = spread(node, scale + 1, None) if node.has(scale + 1) else None
    dtype = node.dtype(scale + 1) if node.has(scale + 1) else dtype or node.dtype()
    return quantised(node, R.divide(x, spread(node, scale, None)), zero, dtype)


def quantised_op(name: str, operands: tuple[int, ...], scale: int) -> Callable[[Node], Expr]:
    """An op on quantised operands in these places is the plain one between conversions."""

    def build(node: Node) -> Expr:
        if node.flag("channels_last"):
            node.fail("channels_last is not supported")
        return small(node, standard(node, name, [real(node, k) for k in operands])[0], scale)

    return build


QUANTISED = {
    "QLinearAdd": ("Add", (0, 3), 6),
    "QLinearAveragePool": ("AveragePool", (0,), 3),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,), 3),
    "QLinearLeakyRelu": ("LeakyRelu", (0,), 3),
    "QLinearMul": ("Mul", (0, 3), 6),
    "QLinearReduceMean": ("ReduceMean", (0,), 3),
    "QLinearSigmoid": ("Sigmoid", (0,), 3),
    "QLinearSoftmax": ("Softmax", (0,), 3),
}
for _name, _form in QUANTISED.items():
    onnx_op(_name, domain=MICROSOFT)(quantised_op(*_form))


@onnx_op("QLinearConcat", domain=MICROSOFT)
def q_linear_concat(node: Node) -> Expr:
    parts = [real(node, place) for place in range(2, len(node.values), 3)]
    return small(node, standard(node, "Concat", parts)[0], 0)


@onnx_op("QLinearWhere", domain=MICROSOFT)
def q_linear_where(node: Node) -> Expr:
    chosen = R.where(node[0], real(node, 1), real(node, 4))
    return small(node, chosen, 7)


@onnx_op("QGemm", domain=MICROSOFT)
def q_gemm(node: Node) -> Expr:
    columns = 0 if node.flag("transB") else 1
    left, right = real(node, 0), real(node, 3, columns if node.rank(4) else None)
    bias = None
    if node.has(6):
        scale = R.multiply(spread(node, 1, None), spread(node, 4, None))
        bias = R.multiply(R.astype(node[6], "float32"), scale)
    made: Expr = standard(node, "Gemm", [left, right, bias])[0]
    return small(node, made, 7) if node.has(7) else made


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_mat_mul(node: Node) -> Expr:
    x, scale, zero = standard(node, "DynamicQuantizeLinear", [node[0]])
    product = standard(node, "MatMulInteger", [x, node[1], zero, node.get(3)])[0]
    made = R.multiply(R.astype(product, "float32"), R.multiply(scale, node[2]))
    return R.add(made, node[4]) if node.has(4) else made


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT)
def mat_mul_integer_to_float(node: Node) -> Expr:
    product = standard(node, "MatMulInteger", [node[0], node[1], node.get(4), node.get(5)])[0]
    made = R.multiply(R.astype(product, "float32"), R.multiply(node[2], node[3]))
    return R.add(made, node[6]) if node.has(6) else made


@onnx_op("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(node: Node) -> list[Any]:
    """The weights are quantised and lie with their gates last; what they meet stays in floats."""

    def weight(place: int, scale: int) -> Expr:
        x: Expr = R.astype(node[place], "float32")
        per_gate = [-1, 1, node.dims(place)[-1]]
        shape = [-1, 1, 1] if node.rank(scale) < 2 else per_gate
        x = R.subtract(x, R.astype(R.reshape(node[scale + 1], shape), "float32"))
        return R.permute_dims(R.multiply(x, R.reshape(node[scale], shape)), [0, 2, 1])

    weights = [node.importer.worked_out(weight(1, 8)), node.importer.worked_out(weight(2, 10))]
    return standard(node, "LSTM", [node[0], *weights, *[node.get(k) for k in range(3, 8)]])


@onnx_op("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_mat_mul(node: Node) -> Expr:
    if node.flag("transBatchA") or node.flag("transBatchB"):
        node.fail("transposed batches are not supported")
    left, right = [_turned(node, k, f) for k, f in enumerate(("transA", "transB"))]
    alpha = node.attr("alpha", 1.0)
    made = R.matmul(left, right)
    return made if alpha == 1.0 else R.multiply(made, like(node, alpha))


def _turned(node: Node, place: int, flag: str) -> Expr:
    """An operand with its last two axes exchanged, if a flag says so."""
    rank = node.rank(place)
    if not node.flag(flag) or rank < 2:
        return node[place]
    return R.permute_dims(node[place], [*range(rank - 2), rank - 1, rank - 2])


@onnx_op("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: Node) -> list[Any]:
    """The norm of a sum, and the sum itself."""
    plain = node.op_type == "SkipLayerNormalization"
    total = R.add(node[0], node[1])
    bias = node.get(4 if plain else 3)
    total = node.emit(total if bias is None else R.add(total, bias))
    last, epsilon = node.rank() - 1, node.attr("epsilon", 1e-5)
    if plain:
        shift = node.get(3) or R.zeros_like(node[2])
        made = R.nn.layer_norm(total, node[2], shift, [last], epsilon=epsilon)
    else:
        made = R.nn.rms_norm(total, node[2], [last], epsilon=epsilon)
    return [made, None, None, total]


@onnx_op("BiasGelu", domain=MICROSOFT)
def bias_gelu(node: Node) -> Expr:
    return R.nn.gelu(R.add(node[0], node[1]))


@onnx_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node) -> Expr:
    scaled = R.multiply(node[0], number(node.attr("alpha", 1.702), node.dtype()))
    return R.multiply(node[0], R.sigmoid(scaled))
