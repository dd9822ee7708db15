"""Mappings of factorizations that external functions compute, in the conventions of LAPACK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.frontend.torch.complex import ComplexTensor
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import complex_op, torch_op
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.script import R

Result = tuple[Sequence[Dim], str]  # sizes and dtype


def _computed(node: FxNode, name: str, operands: Sequence[Expr], *results: Result) -> list[Expr]:
    """Returns the results of an external function."""
    infos = tuple([TensorStructInfo(tuple(sizes), dtype) for sizes, dtype in results])
    values = [x if isinstance(x, PrimValue) else node.emit(x) for x in operands]
    info = TupleStructInfo(infos) if len(infos) > 1 else infos[0]
    result = node.emit(R.call_pure_packed(f"matrix.{name}", *values, sinfo_args=info))
    return [node.emit(result[k]) for k in range(len(infos))] if len(infos) > 1 else [result]


@torch_op("geqrf")
def packed_orthogonal_factors(node: FxNode) -> list[Expr]:
    *batch, rows, columns = node.dims()
    dtype, count = node.dtype(), dims.dim_min(rows, columns)
    results = (node.dims(), dtype), ((*batch, count), dtype)
    return _computed(node, "reflections", [node["self"]], *results)


def _eigenvectors(node: FxNode) -> list[ComplexTensor]:
    """Returns the eigenvalues and the eigenvectors of a real or a complex matrix."""
    matrix = node.arg("self")
    parts = [matrix.real, matrix.imag] if isinstance(matrix, ComplexTensor) else [matrix]
    dtype, sizes = node.out_dtype(), node.dims()
    results = [(sizes[:-1], dtype)] * 2 + [(sizes, dtype)] * 2
    values = _computed(node, "eigenvectors", parts, *results)
    return [ComplexTensor(*values[:2]), ComplexTensor(*values[2:])]


complex_op("linalg_eig")(_eigenvectors)
complex_op("linalg_eigvals", "_linalg_eigvals")(lambda node: _eigenvectors(node)[0])


@torch_op("linalg_ldl_factor", "linalg_ldl_factor_ex")
def symmetric_factors(node: FxNode) -> list[Expr]:
    """Builds the packed factors, the pivots, and the status if the op has it."""
    sizes, has_status = node.dims(), "_ex" in node.spec.target
    is_checked = PrimValue(not has_status or node.flag("check_errors"))
    results = (sizes, node.dtype()), (sizes[:-1], "int32"), (sizes[:-2], "int32")
    values = _computed(node, "symmetric_factors", [node["self"], is_checked], *results)
    return values if has_status else values[:2]


@torch_op("linalg_ldl_solve")
def symmetric_solution(node: FxNode) -> Any:
    operands = [node[name] for name in ("LD", "pivots", "B")]
    return _computed(node, "symmetric_solution", operands, (node.out_dims(), node.out_dtype()))[0]
