"""Decompositions of composite ops: the same StructInfo and values as their index signatures."""

import numpy as np
import pytest

from structir.analysis import PASS, base_check
from structir.ir import Call, TensorStructInfo, Tuple, TupleStructInfo, Var
from structir.ir.dims import sym
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import called, expression

COMPOSITES = [op for op in BUILT_IN_OPS.values() if getattr(op.definition, "parts", False)]
EXAMPLES = [
    pytest.param(op, number, id=f"{op.name}-{number}")
    for op in COMPOSITES
    for number in range(len(op.definition.samples))
]


@pytest.mark.parametrize("op", COMPOSITES, ids=lambda op: op.name)
def test_composites_have_examples(op):
    assert op.definition.samples


@pytest.mark.parametrize(("op", "number"), EXAMPLES)
def test_decompositions_have_the_struct_info_of_the_signature(op, number):
    args, keywords = op.definition.examples[number]
    call, _ = called(op.name, *args, **keywords)
    parts = op.definition.decompose(call)
    assert parts is not None
    assert parts.struct_info == call.struct_info


def symbolic(value, symbols):
    """Returns the tensor with a symbolic dim per size; equal sizes share one."""
    if isinstance(value, np.ndarray):
        dims = tuple(symbols.setdefault(n, sym(f"n{n}")) for n in value.shape)
        return Var("x", TensorStructInfo(dims, value.dtype.name))
    return value


@pytest.mark.parametrize(("op", "number"), EXAMPLES)
def test_decompositions_add_no_struct_info_at_symbolic_sizes(op, number):
    symbols = {1: 1}
    args, keywords = op.definition.examples[number]
    call = op(*[symbolic(a, symbols) for a in args], **keywords)
    parts = op.definition.decompose(call)
    assert base_check(parts.struct_info, call.struct_info) is PASS


def fields_of(info):
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


@pytest.mark.parametrize(("op", "number"), EXAMPLES)
def test_decompositions_call_other_ops(op, number):
    args, keywords = op.definition.examples[number]
    known = {}
    call = op(*[expression(a, known) for a in args], **keywords)
    todo, seen = [op.definition.decompose(call)], set()
    while todo:
        expr = todo.pop()
        if isinstance(expr, Call):
            seen.add(expr.op)
            todo += expr.args
        elif isinstance(expr, Tuple):
            todo += expr.fields
    assert seen and op not in seen
    assert len(fields_of(call.struct_info)) >= 1
