"""Calls of kernels and external functions in a shard, over blocks of their operands and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structir.analysis.deduction import deduce
from structir.distributed.kernel_blocks import KernelBlock, kernel_block
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, DataTypeImm, Expr, ShapeExpr
from structir.ir.kernel import Kernel
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo
from structir.projections.boxes import Bounds
from structir.projections.kernels.iteration_ranges import required_iterations
from structir.projections.kernels.kernel_spec import kernel_projection, sizes_of_call
from structir.projections.spec import IndexSpec

Range = tuple[int, int]


def block_of_kernel(
    kernel: Kernel,
    call: Call,
    sizes: Mapping[Sym, int],
    operands: Sequence[tuple[Bounds, tuple[int, ...]]],
    results: Sequence[tuple[Bounds | None, tuple[int, ...]]],
) -> KernelBlock:
    """Returns the kernel of a call over blocks, given with the shapes of the tensors.

    `sizes` are those of the program. A result without a block gets one element.
    """
    projection = kernel_projection(kernel)
    bound = sizes_of_call(call, kernel)
    own = {s: d if isinstance(d, int) else dims.evaluate(d, dict(sizes)) for s, d in bound.items()}
    shapes = [shape for _, shape in results]
    iterations = required_iterations(projection, shapes, own, [block for block, _ in results])
    blocks = [*operands, *[(block or one_element(shape), shape) for block, shape in results]]
    return kernel_block(kernel, projection, own, blocks, iterations)


def one_element(shape: tuple[int, ...]) -> Bounds:
    """Returns the block of the first element of a tensor."""
    return (0,) * len(shape), tuple([min(size, 1) for size in shape])


def common_result_blocks(
    spec: IndexSpec, shapes: Sequence[tuple[int, ...]], results: Sequence[Bounds | None]
) -> list[Bounds]:
    """Returns the block of each result that one execution over index ranges computes."""
    ranges: dict[Sym, Range] = {}
    (statement,) = spec.statements
    pairs = [(write, results[write.result]) for write in statement.writes]
    for write, bounds in pairs:
        plain = write.plain or (None,) * len(shapes[write.result])
        for index_var, start, stop in zip(plain, *(bounds or ((), ())), strict=False):
            if index_var is not None:
                low, high = ranges.get(index_var, (start, stop))
                ranges[index_var] = min(low, start), max(high, stop)
    blocks: list[Bounds] = []
    for write in statement.writes:
        shape = shapes[write.result]
        plain = write.plain or (None,) * len(shape)
        axes = [ranges.get(s, (0, n)) if s else (0, n) for s, n in zip(plain, shape, strict=True)]
        blocks.append((tuple([a for a, _ in axes]), tuple([b for _, b in axes])))
    return blocks


def call_on_blocks(call: Call, args: tuple[Expr, ...], shapes: Sequence[tuple[Dim, ...]]) -> Call:
    """Returns a call of an external function on blocks; `shapes` are those of its results."""
    infos = [info for info in call.sinfo_args if isinstance(info, TensorStructInfo)]
    results = [
        TensorStructInfo(shape, info.dtype) for shape, info in zip(shapes, infos, strict=False)
    ]
    written = iter(shapes)
    arguments: list[Expr] = []
    for k, arg in enumerate(args):
        is_result = k + 1 < len(args) and isinstance(args[k + 1], DataTypeImm)
        shaped = isinstance(arg, ShapeExpr) and is_result  # of `R.call_dps_packed`
        arguments.append(ShapeExpr(next(written)) if shaped else arg)
    bare = replace(call, args=tuple(arguments), sinfo_args=tuple(results), struct_info=None)
    return replace(bare, struct_info=deduce(bare))
