"""Operations of a kernel, per nest of its loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from structir.ir.dims import Dim, Sym
from structir.ir.kernel import Apply, Assign, Branch, For, Kernel, KernelStatement, While, nodes_of
from structir.projections.kernels.kernel_spec import KernelProjection, kernel_projection

FREE = frozenset({"cast", "select"})


@attrs.frozen
class NestCost:
    """The operations of one iteration of a nest of loops, without those of inner loops."""

    names: tuple[str, ...]
    index_vars: tuple[Sym | None, ...]  # None for a loop whose iterations depend on data
    extents: tuple[Dim, ...]
    operations: int


def nest_costs(kernel: Kernel) -> list[NestCost]:
    """Returns the operations of the statements of a kernel, per loop nest.

    A loop with a data-dependent trip count counts as one iteration.
    """
    projection = kernel_projection(kernel)
    return [n for n in _of_block(kernel.body, (), ((), (), ()), projection) if n.operations]


Nest = tuple[tuple[str, ...], tuple[Sym | None, ...], tuple[Dim, ...]]


def _of_block(
    statements: Sequence[KernelStatement],
    path: tuple[int, ...],
    nest: Nest,
    projection: KernelProjection,
) -> Iterator[NestCost]:
    own = 0
    for k, statement in enumerate(statements):
        match statement:
            case Assign():
                own += _operations(statement) + bool(statement.symbol)
            case For(variable, _, _, _, body):
                inner = _nested(nest, variable.name, (*path, k), projection)
                yield from _of_block(body, (*path, k), inner, projection)
            case While(test, body):
                own += _operations(test)
                yield from _of_block(body, (*path, k), nest, projection)
            case Branch(test, then, otherwise):
                own += _operations(test)
                yield from _of_block(then, (*path, k, 1), nest, projection)
                yield from _of_block(otherwise, (*path, k, 0), nest, projection)
    yield NestCost(*nest, own)


def _nested(nest: Nest, name: str, path: tuple[int, ...], projection: KernelProjection) -> Nest:
    """Returns a nest with one more loop."""
    names, index_vars, extents = nest
    loops = {} if projection.flow is None else projection.flow.loops
    known = loops.get(path)
    index = None if known is None else known.index
    extent: Dim = 1 if index is None else projection.extents[index]
    return (*names, name), (*index_vars, index), (*extents, extent)


def _operations(node: KernelStatement | object) -> int:
    applications = [n for n in nodes_of(node) if isinstance(n, Apply)]  # type: ignore[arg-type]
    return len([n for n in applications if n.fn not in FREE])


def operations_over(kernel: Kernel, iterations: Mapping[Sym, tuple[int, int]]) -> int:
    """Returns the operations of a kernel that runs these iterations of each loop."""
    total = 0
    for nest in nest_costs(kernel):
        count = nest.operations
        for index in nest.index_vars:
            first, last = (0, 1) if index is None else iterations.get(index, (0, 0))
            count *= max(last - first, 0)
        total += count
    return total
