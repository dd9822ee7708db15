"""Mappings of torch's backward ops, which AOTAutograd's graphs of gradients contain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from structir.adjoints.functions import Adjoints
from structir.adjoints.reverse import ReverseMode
from structir.analysis.substitution import Substitution
from structir.frontend.scalars import number, reshape_to
from structir.frontend.torch.graph import Ref
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import find_build, torch_op
from structir.frontend.torch.scalars import cast
from structir.ir.expr import Expr, ShapeExpr, Var
from structir.ir.module import IRModule
from structir.script import R

GRADIENT = "grad_output"
FORWARD = {
    "avg_pool2d_backward": "avg_pool2d",
    "avg_pool3d_backward": "avg_pool3d",
    "_adaptive_avg_pool2d_backward": "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d_backward": "_adaptive_avg_pool3d",
    "grid_sampler_2d_backward": "grid_sampler_2d",
}
"""Backward ops with the arguments of their forward op, and the gradient of its result."""
UPSAMPLING = [
    f"upsample_{kind}_backward"
    for kind in (
        "nearest1d",
        "nearest2d",
        "nearest3d",
        "linear1d",
        "bilinear2d",
        "bicubic2d",
        "trilinear3d",
    )
]


def pulled_back(
    node: FxNode, forward: str, operands: Mapping[str, Expr], gradient: str = GRADIENT
) -> list[Expr]:
    """Returns the gradients of the operands of a forward op for that of its result.

    The arguments of the forward op are those of the node, and `operands`; the metadata of its
    result are those of the argument `gradient`.
    """
    result = node.spec.args[gradient]
    spec = attrs.evolve(node.spec, target=f"aten.{forward}.default", outputs=(result,))
    build: Any = find_build(spec.target)
    variables = {name: _variable(node, value) for name, value in operands.items()}
    call = FxNode(spec, node.host, node.scope, node.span).replace(variables)
    builder = node.host.builder
    sequence = builder.aside(lambda: build(call))
    scope = ReverseMode(builder, Adjoints(IRModule({})), variables.values(), recomputes=False)
    value = scope.run(sequence, Substitution())
    scope.cotangents.add(value, node[gradient])
    scope.propagate()
    return scope.gradients([(variable, ()) for variable in variables.values()])


def _variable(node: FxNode, value: Expr) -> Var:
    """Returns a new variable of a value: gradients are with respect to it."""
    return node.host.builder.emit(value)


@torch_op(*FORWARD)
def of_first_operands(node: FxNode) -> Any:
    """Builds a backward op by the gradient of its forward op."""
    forward = FORWARD[_name(node)]
    names = [n for n in ("self", "input", "grid") if isinstance(node.spec.args.get(n), Ref)]
    gradients = pulled_back(node, forward, {name: node[name] for name in names})
    return gradients if len(node.spec.outputs) > 1 else gradients[0]


@torch_op(*UPSAMPLING)
def upsampling(node: FxNode) -> Expr:
    """Builds the gradient of an upsampling, which is linear: its operand has no values."""
    name = _name(node).removesuffix("_backward")
    operand = R.zeros(ShapeExpr(tuple(node.arg("input_size"))), node.out_dtype())
    return pulled_back(node, name, {"self": operand})[0]


@torch_op("convolution_backward")
def convolution(node: FxNode) -> list[Expr | None]:
    mask = node.arg("output_mask")
    operands = {"input": node["input"], "weight": node["weight"]}
    gradients: list[Expr | None] = [
        *pulled_back(node.replace({"bias": None}), "convolution", operands)
    ]
    axes = [k for k in range(node.rank(GRADIENT)) if k != 1]
    gradients.append(R.sum(node[GRADIENT], axis=axes) if mask[2] else None)
    return [value if used else None for value, used in zip(gradients, mask, strict=True)]


@torch_op("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention(node: FxNode) -> list[Expr]:
    operands = {name: node[name] for name in ("query", "key", "value")}
    return pulled_back(node, "scaled_dot_product_attention", operands, "grad_out")


@torch_op("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
@torch_op("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward")
def max_pool(node: FxNode) -> Expr:
    """Builds zeros with the gradients added at the flat positions of the maxima in each plane."""
    count = int(_name(node).partition("pool")[2][0])
    sizes = node.dims_of(node["self"])
    outer = sizes[: len(sizes) - count]
    gradient, indices = (
        reshape_to(node[name], (*outer, math.prod(node.dims_of(node[name])[-count:])))
        for name in (GRADIENT, "indices")
    )
    dtype = node.out_dtype()
    zeros = R.full(ShapeExpr((*outer, math.prod(sizes[-count:]))), number(0.0, dtype), dtype=dtype)
    total = R.scatter_elements(
        zeros, cast(indices, "int64"), gradient, axis=len(outer), reduction="add"
    )
    return reshape_to(node.emit(total), sizes)


def _name(node: FxNode) -> str:
    """Returns the name of an op without its namespace and overload."""
    return node.spec.target.split(".")[1]
