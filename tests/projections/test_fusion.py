"""Fusion relations of consumers and producers, from their specs alone."""

import pytest

from structir.ir.dims import sym
from structir.projections.fusion import FusionRelation, fusible, fusion
from structir.projections.spec import IndexSpec
from tests.projections.op_specs import spec_of, tensor

N = sym("n")


def relation(
    producer: IndexSpec, consumer: IndexSpec, operand: int = 0
) -> tuple[FusionRelation, bool]:
    """Returns how the consumer reads the producer's result, and whether they may be fused."""
    (statement,), (reader,) = producer.statements, consumer.statements
    read = next(r for r in reader.reads if r.operand == operand)
    relation_found = fusion(producer, (statement, statement.writes[0]), consumer, (reader, read))
    return relation_found.relation, fusible(statement, relation_found)


def test_elementwise_and_epilogues() -> None:
    exp = spec_of("exp", (N, 8))
    assert relation(exp, spec_of("add", (N, 8), (8,))) == (FusionRelation.INLINE, True)
    product = spec_of("matmul", (N, 4), (4, 8))
    assert relation(product, exp) == (FusionRelation.INLINE, True)
    assert relation(exp, spec_of("permute_dims", (N, 8))) == (FusionRelation.INLINE, True)
    assert relation(exp, spec_of("flip", (N, 8), 0)) == (FusionRelation.INLINE, True)


def test_broadcast_reads_are_hoisted() -> None:
    total = spec_of("sum", (8, 5), axis=[1])
    assert relation(total, spec_of("add", (4, 8), (8,)), 1) == (FusionRelation.HOIST, True)
    preserved = spec_of("sum", (N, 8), axis=[1], keepdims=True)
    assert relation(preserved, spec_of("subtract", (N, 8), (N, 1)), 1) == (
        FusionRelation.HOIST,
        True,
    )


def test_windows_and_reductions_read_several_points() -> None:
    exp = spec_of("exp", (1, 2, 20))
    assert relation(exp, spec_of("nn.conv1d", (1, 2, 20), (4, 2, 3))) == (
        FusionRelation.WINDOW,
        True,
    )
    product = spec_of("matmul", (N, 4), (4, 8))
    assert relation(product, spec_of("matmul", (N, 8), (8, 3))) == (FusionRelation.WINDOW, False)


def test_strides_skip_points() -> None:
    exp = spec_of("exp", (20,))
    half = spec_of("strided_slice", (20,), [0], [0], [20], [2])
    assert relation(exp, half) == (FusionRelation.SKIP, True)


def test_diagonals_couple_index_variables() -> None:
    relation_found = relation(spec_of("exp", (5, 5)), spec_of("einsum", [(5, 5)], "ii->i"))
    assert relation_found == (FusionRelation.DIAGONAL, True)


def test_whole_axes_and_index_reads_prevent_fusion() -> None:
    exp = spec_of("exp", (4, 8))
    assert relation(exp, spec_of("nn.softmax", (4, 8))) == (FusionRelation.WHOLE, False)
    gathered = spec_of("take", (4, 8), tensor(3, dtype="int64"), axis=0)
    assert relation(exp, gathered) == (FusionRelation.BARRIER, False)


@pytest.mark.parametrize("size", [1, 5])
def test_axes_of_size_one_do_not_matter(size: int) -> None:
    exp = spec_of("exp", (1, size, 8))
    relation_found = relation(exp, spec_of("add", (1, size, 8), (1, 1, 1)))
    assert relation_found == (FusionRelation.INLINE, True)
