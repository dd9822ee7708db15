"""Derives the adjoint of an index spec, itself an index spec: sums of partial derivatives times
cotangents.

Broadcasts, windows, slices, gathers and reshapes need no special case: the adjoint reduces over the
index variables that the operand lacks, and accumulates over points that read the same element.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import mul

import attrs

from structir.ir.dims import Dim, Sym, as_dim, equal
from structir.ir.dtype import is_float
from structir.projections.injectivity import injective
from structir.projections.scalar_expr import (
    OperandElement,
    ScalarExpr,
    ScalarExtent,
    ScalarLiteral,
    ScalarOp,
    and_,
    as_scalar_expr,
    cast,
    eq,
    operands_of,
    select,
)
from structir.projections.spec import (
    AccessIndex,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Statement,
    Write,
)
from structir.projections.values import ONE, ZERO, derivative

NON_DIFFERENTIABLE = frozenset({"any", "all", "argmax", "argmin"})


@attrs.frozen(eq=False)
class AuxiliaryTensor:
    """A tensor that an adjoint needs, shaped like a result: a count of points, or of ties.

    `spec` computes it from the operands and the results.
    """

    name: str
    spec: IndexSpec


@attrs.frozen(eq=False)
class Adjoint:
    """The gradient of a spec with respect to one operand.

    The operands of `spec` are those of the original, its results, the cotangents of its results,
    and the auxiliary tensors. The operands of an auxiliary spec are those of the original and its
    results.
    """

    spec: IndexSpec
    auxiliary_tensors: tuple[AuxiliaryTensor, ...] = ()


@attrs.frozen(eq=False)
class Contribution:
    """A write whose value depends on a read of the operand."""

    statement: Statement
    write: Write
    read: Read
    number: int  # index of the statement


def result_name(k: int) -> str:
    """Returns the name of a result element in scalar expressions of an adjoint."""
    return f"result {k}"


def gradient_name(k: int) -> str:
    """Returns the name of the gradient of a result element in scalar expressions of an adjoint."""
    return f"gradient {k}"


def adjoint(spec: IndexSpec, operand: int) -> Adjoint | None:
    """Returns the gradient with respect to an operand.

    Returns None for operands that are not floats, for reductions in NON_DIFFERENTIABLE, and for
    overlapping writes that combine by anything but a sum.
    """
    info = spec.operands[operand]
    if not is_float(info.dtype or "float32") or not spec.computes:
        return None
    if any(statement.monoid in NON_DIFFERENTIABLE for statement in spec.statements):
        return None
    if spec.base is not None:
        return _adjoint_of_scatter(spec, operand)
    return _adjoint_of_reads(spec, operand)


def _adjoint_of_reads(spec: IndexSpec, operand: int) -> Adjoint | None:
    """Returns the adjoint as a scatter of one contribution per read."""
    contributions = list(_contributions(spec, operand))
    if any(not c.write.unique and c.statement.monoid not in (None, "sum") for c in contributions):
        return None
    single = len(contributions) == 1
    statements, auxiliary_tensors = [], dict[str, AuxiliaryTensor]()
    for contribution in contributions:
        factor, auxiliaries = _factor(spec, contribution)
        auxiliary_tensors |= {h.name: h for h in auxiliaries}
        statements.append(_statement(spec, contribution, factor, list(auxiliary_tensors), single))
        statements += _zeros_where_overwritten(spec, contribution)
    info = spec.operands[operand]
    return Adjoint(
        attrs.evolve(
            spec,
            operands=(
                *_all_operands(spec),
                *[_auxiliary_info(h) for h in auxiliary_tensors.values()],
            ),
            results=(ResultInfo(info.name, info.dims, info.dtype),),
            statements=tuple(statements),
            fill=0,
            base=None,
        ),
        tuple(auxiliary_tensors.values()),
    )


def _zeros_where_overwritten(spec: IndexSpec, contribution: Contribution) -> list[Statement]:
    """Returns statements that clear the cotangent of elements which later statements replace.

    A copy of a whole operand, such as that of the adjoint of a scatter, is followed by statements
    that write over some elements. They write at the same indices of the operand.
    """
    write, read = contribution.write, contribution.read
    sizes = spec.results[write.result].dims
    covers = write.plain is not None and all(
        [
            s is None or equal(spec.extents[s], d) is True
            for s, d in zip(write.plain, sizes, strict=True)
        ]
    )
    later = [s for s in spec.statements[contribution.number + 1 :] if s.monoid is None]
    if not covers or read.entries != write.entries:
        return []
    return [
        attrs.evolve(s, writes=tuple([attrs.evolve(w, value=ScalarLiteral(0), result=0)]))
        for s in later
        for w in s.writes
        if w.result == write.result and not _depends_on(w.value, read.name)
    ]


def _contributions(spec: IndexSpec, operand: int) -> Iterator[Contribution]:
    for number, statement in enumerate(spec.statements):
        for write in statement.writes:
            for read in statement.reads:
                if read.operand == operand and _depends_on(write.value, read.name):
                    yield Contribution(statement, write, read, number)


def _depends_on(value: ScalarExpr | None, name: str) -> bool:
    """Whether a value has a partial derivative by a read that is not 0."""
    return value is not None and derivative(value, name) != ZERO


def _all_operands(spec: IndexSpec) -> tuple[OperandInfo, ...]:
    results = [OperandInfo(result_name(k), (), r.dims, r.dtype) for k, r in enumerate(spec.results)]
    gradients = [attrs.evolve(r, name=gradient_name(k)) for k, r in enumerate(results)]
    return (*spec.operands, *results, *gradients)


def _auxiliary_info(auxiliary: AuxiliaryTensor) -> OperandInfo:
    result = auxiliary.spec.results[0]
    return OperandInfo(auxiliary.name, (), result.dims, result.dtype)


def _statement(
    spec: IndexSpec,
    contribution: Contribution,
    factor: ScalarExpr,
    auxiliary_tensors: list[str],
    single: bool,
) -> Statement:
    """Returns the statement that accumulates one contribution at the indices of the operand."""
    statement, write, read = contribution.statement, contribution.write, contribution.read
    assert write.value is not None
    partial = derivative(write.value, read.name)
    value = _masked_product(partial, [OperandElement(gradient_name(write.result)), factor])
    order = (*statement.parallel, *statement.reduce)
    axis_vars = [_index_vars_of(e.index_vars, statement, e.data) for e in read.entries]
    index_vars = {s for each in axis_vars for s in each}
    parallel = tuple(dict.fromkeys([s for each in axis_vars for s in order if s in each]))
    unique = single and injective(read.entries, parallel, spec.extents) is True
    cotangent_write = Write(0, read.entries, value, unique)
    base = len(spec.operands)
    names = {
        **{result_name(k): base + k for k in range(len(spec.results))},
        **{gradient_name(k): base + len(spec.results) + k for k in range(len(spec.results))},
        **{name: base + 2 * len(spec.results) + k for k, name in enumerate(auxiliary_tensors)},
    }
    used = operands_of(value)
    cotangent_reads = [Read(n, k, write.entries) for n, k in names.items() if n in used]
    reads = _required_reads(statement.reads, used, write, read)
    reduce_vars = tuple([s for s in order if s not in index_vars])
    return Statement(
        parallel,
        reduce_vars,
        (),
        (*reads, *cotangent_reads),
        (cotangent_write,),
        statement.conditions,
        "sum",
    )


def _product(factors: list[ScalarExpr]) -> ScalarExpr:
    """Returns the product of the factors that are not 1."""
    return reduce(mul, [f for f in factors if f != ONE] or [ONE])


def _masked_product(partial: ScalarExpr, factors: list[ScalarExpr]) -> ScalarExpr:
    """Returns the product of a partial derivative and factors; where it selects 0 the product is 0,
    whatever the factors are: an infinite cotangent of the other choice is not used."""
    if not isinstance(partial, ScalarOp) or partial.fn != "select" or ZERO not in partial.args:
        return _product([partial, *factors])
    condition, *choices = partial.args
    return select(condition, *[c if c == ZERO else _masked_product(c, factors) for c in choices])


def _index_vars_of(
    symbols: frozenset[Sym], statement: Statement, data: ScalarExpr | None
) -> set[Sym]:
    """Returns the loop indices of an index expression, including those of the reads in it."""
    index_vars = set(symbols)
    for name in operands_of(data) if data is not None else ():
        index_vars |= {s for e in statement.read(name).entries for s in e.index_vars}
    return index_vars


def _required_reads(
    reads: tuple[Read, ...], used: frozenset[str], write: Write, access_read: Read
) -> list[Read]:
    """Returns the reads that a value or an index depends on, and those in conditions."""
    names = set(used)
    index_exprs = [
        e.data
        for access in (write.entries, access_read.entries)
        for e in access
        if e.data is not None
    ]
    names |= {n for expr in index_exprs for n in operands_of(expr)}
    for read in reads:
        if read.name in names or not all(e.inside for e in read.entries):
            data = [e.data for e in read.entries if e.data is not None]
            names |= {read.name, *(n for expr in data for n in operands_of(expr))}
    return [r for r in reads if r.name in names]


# Factors of a partial derivative, by monoid.


def _factor(
    spec: IndexSpec, contribution: Contribution
) -> tuple[ScalarExpr, list[AuxiliaryTensor]]:
    statement = contribution.statement
    if not statement.reduce or statement.monoid in (None, "sum"):
        return as_scalar_expr(1), []
    return FACTORS[statement.monoid](spec, contribution)


def _mean_factor(
    spec: IndexSpec, contribution: Contribution
) -> tuple[ScalarExpr, list[AuxiliaryTensor]]:
    """Returns an equal share of the existing points."""
    count = spec.count(contribution.statement)
    if count is not None:
        return as_scalar_expr(1) / _as_float(count), []
    auxiliary = _auxiliary_spec(spec, contribution, "count", ScalarLiteral(1.0))
    return as_scalar_expr(1) / OperandElement(auxiliary.name), [auxiliary]


def _as_float(count: Dim) -> ScalarExpr:
    return (
        ScalarLiteral(float(count))
        if isinstance(count, int)
        else cast(ScalarExtent(count), "float64")
    )


def _extremum_factor(
    spec: IndexSpec, contribution: Contribution
) -> tuple[ScalarExpr, list[AuxiliaryTensor]]:
    """Returns equal shares for the points that equal the result."""
    write = contribution.write
    assert write.value is not None
    hit = eq(write.value, OperandElement(result_name(write.result)))
    auxiliary = _auxiliary_spec(spec, contribution, "ties", select(hit, 1.0, 0.0))
    return select(hit, 1 / OperandElement(auxiliary.name), 0), [auxiliary]


def _product_factor(
    spec: IndexSpec, contribution: Contribution
) -> tuple[ScalarExpr, list[AuxiliaryTensor]]:
    """Returns the product of the other points.

    With one zero among the points, only the gradient at that point is not 0. With several, all are
    0.
    """
    value = contribution.write.value
    assert value is not None
    zero = eq(value, 0)
    zeros = _auxiliary_spec(spec, contribution, "zeros", select(zero, 1.0, 0.0))
    others = _auxiliary_spec(spec, contribution, "others", select(zero, 1, value), "prod")
    few, rest = OperandElement(zeros.name), OperandElement(others.name)
    single = select(and_(eq(few, 1), zero), rest, 0)
    return select(eq(few, 0), rest / value, single), [zeros, others]


FACTORS = {
    "mean": _mean_factor,
    "max": _extremum_factor,
    "min": _extremum_factor,
    "prod": _product_factor,
}


def _auxiliary_spec(
    spec: IndexSpec,
    contribution: Contribution,
    quantity: str,
    value: ScalarExpr,
    monoid: str = "sum",
) -> AuxiliaryTensor:
    """Returns the original spec with another value at each point."""
    statement, write = contribution.statement, contribution.write
    name = f"{quantity} {contribution.number}.{write.result}"
    base = len(spec.operands)
    results = [Read(result_name(k), base + k, write.entries) for k in range(len(spec.results))]
    used = operands_of(value)
    reads = (*statement.reads, *[r for r in results if r.name in used])
    auxiliary_write = attrs.evolve(write, result=0, value=value)
    info = attrs.evolve(spec.results[write.result], name=quantity)
    auxiliary = IndexSpec(
        _all_operands(spec)[: base + len(spec.results)],
        (info,),
        spec.extents,
        (attrs.evolve(statement, reads=reads, writes=(auxiliary_write,), monoid=monoid),),
        1 if monoid == "prod" else 0,
    )
    return AuxiliaryTensor(name, auxiliary)


# Scatters start from an operand.


def _adjoint_of_scatter(spec: IndexSpec, operand: int) -> Adjoint | None:
    """Returns the cotangent at the written indices for updates, and at the others for the base."""
    if any(statement.monoid not in (None, "sum") for statement in spec.statements):
        return None
    if operand != spec.base:
        return _adjoint_of_reads(spec, operand)
    info = spec.operands[operand]
    index_vars = tuple([Sym(f"a{k}") for k in range(len(info.dims))])
    extents = {**spec.extents, **dict(zip(index_vars, info.dims, strict=True))}
    entries = _plain_entries(index_vars, info.dims)
    gradient = len(spec.operands) + len(spec.results)
    copied = Statement(
        index_vars,
        (),
        (),
        (Read(gradient_name(0), gradient, entries),),
        (Write(0, entries, OperandElement(gradient_name(0))),),
    )
    replaced = [
        attrs.evolve(c, writes=tuple([attrs.evolve(w, value=ScalarLiteral(0)) for w in c.writes]))
        for c in spec.statements
        if c.monoid is None
    ]
    results = (ResultInfo(info.name, info.dims, info.dtype),)
    statements = (copied, *replaced)
    return Adjoint(IndexSpec(_all_operands(spec), results, extents, statements))


def _plain_entries(index_vars: tuple[Sym, ...], sizes: tuple[Dim, ...]) -> tuple[AccessIndex, ...]:
    pairs = zip(index_vars, sizes, strict=True)
    return tuple([AccessIndex(as_dim(index_var), size) for index_var, size in pairs])
