"""Gradients of every op: declared, equal to finite differences, and compiled at symbolic sizes."""

import re

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir import (
    BlockBuilder,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    structural_equal,
)
from structir.ir.dtype import is_float
from structir.opdef.gradient import describe_gradient, gradients
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import called, symbolic_call
from tests.runtime.agreement import assert_agree, copied

OPS = {name: op.definition for name, op in BUILT_IN_OPS.items()}
# Compilation dominates the time: all hand-written gradients are compiled, and one in four of those
# derived from signature and body.
COMPILED = {n for k, n in enumerate(sorted(OPS)) if k % 4 == 0 or "gradient" in OPS[n].hooks}
every_op = pytest.mark.parametrize("name", sorted(OPS))


def near(value, seed):
    """Returns a value in double precision, moved slightly off kinks and ties."""
    if isinstance(value, tuple | list):
        return type(value)(near(v, seed + k) for k, v in enumerate(value))
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    return np.asarray(value + 0.01 * np.random.default_rng(seed).uniform(0.5, 1, value.shape))


def examples(name):
    """Yields the differentiable examples of an op."""
    for args, keywords in OPS[name].examples:
        yield (
            [near(a, 3 * k) for k, a in enumerate(args)],
            {n: near(v, 7) for n, v in keywords.items()},
        )


def direction(value, seed):
    """Samples a direction for a value; None where the value is not floating-point."""
    if isinstance(value, tuple):
        return tuple(direction(v, seed + k) for k, v in enumerate(value))
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.random.default_rng(seed).standard_normal(value.shape).astype(value.dtype)
    return None


def has_some(value):
    return any(map(has_some, value)) if isinstance(value, tuple) else value is not None


def moved(value, way, step):
    if isinstance(value, tuple) and isinstance(way, tuple):
        return tuple(moved(v, w, step) for v, w in zip(value, way, strict=True))
    return value if way is None else value + step * way


def pairing(a, b):
    """Computes the scalar product of two values; None counts as 0."""
    if a is None or b is None:
        return 0.0
    if isinstance(a, tuple):
        return sum(pairing(x, y) for x, y in zip(a, b, strict=True))
    return float((a.astype("float64") * b).sum())


def test_every_op_declares_its_gradient():
    undeclared = [
        name
        for name, definition in OPS.items()
        for args, keywords in examples(name)
        if not describe_gradient(definition, called(name, *args, **keywords)[0])
    ]
    assert undeclared == [], "declare it by a hook: gradient or non_differentiable"


@every_op
@pytest.mark.filterwarnings("ignore")
def test_gradients_match_finite_differences(name):
    for args, keywords in examples(name):
        call, values = called(name, *args, **keywords)
        result = OPS[name].reference(call, values)
        back, ways = direction(result, 11), direction(tuple(values), 20)
        if not has_some(back):
            continue
        if "non_differentiable" in OPS[name].hooks:
            with pytest.raises(DiagnosticError, match=f"{re.escape(name)}: not differentiable: "):
                gradients(OPS[name], call, values, back)
            continue
        if "no_gradient" in OPS[name].hooks:
            assert not has_some(tuple(gradients(OPS[name], call, values, back)))
            continue
        own = pairing(tuple(gradients(OPS[name], call, values, back)), ways)

        def slope(step, call=call, values=values, ways=ways, back=back):
            there = [
                pairing(back, OPS[name].reference(call, moved(values, ways, s)))
                for s in (step, -step)
            ]
            return (there[0] - there[1]) / (2 * step)

        if np.isnan(slope(1e-6)):
            continue  # outside of where the function is defined
        fine = own == pytest.approx(slope(1e-6), rel=1e-4, abs=1e-4)
        # a cast to float32 hides short steps
        assert fine or own == pytest.approx(slope(1e-2), rel=1e-2, abs=1e-2)


def differentiated(name, args, keywords, symbols):
    """Returns a module that computes the cotangents of a call, and the values of its operands.

    `main` takes the operands and the cotangents of the result.
    """
    call, known = symbolic_call(name, args, keywords, symbols)
    seeds = variables(call.struct_info)
    builder = BlockBuilder()
    with builder.function("main", [*known, *flat(seeds)]):
        with builder.dataflow():
            result = builder.emit(call)
            cotangents = OPS[name].adjoint(call, result, seeds, builder.emit)
            output = builder.emit_output(Tuple(tuple(flat(tuple(cotangents)))))
        builder.emit_func_output(output)
    return builder.get(), tuple(known.values())


def variables(info):
    """Returns variables for the cotangents of a result."""
    if isinstance(info, TupleStructInfo):
        return tuple(variables(f) for f in info.fields)
    real = isinstance(info, TensorStructInfo) and is_float(info.dtype or "int64")
    return Var("back", info) if real else None


def flat(value):
    """Returns the values of nested tuples that are not None, in order."""
    if isinstance(value, tuple):
        return [part for v in value for part in flat(v)]
    return [] if value is None else [value]


@pytest.mark.sampled(40)
@every_op
@pytest.mark.filterwarnings("ignore")
def test_expressions_at_symbolic_sizes(name):
    if "non_differentiable" in OPS[name].hooks:
        return
    for args, keywords in examples(name):
        call, values = called(name, *args, **keywords)
        back = direction(OPS[name].reference(call, values), 11)
        if not has_some(back):
            continue
        wanted = tuple(flat(tuple(gradients(OPS[name], call, values, back))))
        try:
            module, inputs = differentiated(name, args, keywords, {})
        except DiagnosticError:  # its attributes speak of sizes
            module, inputs = differentiated(name, args, keywords, None)
        assert structural_equal(structir.parse(module.script()), module)
        given = (*inputs, *flat(back))
        assert_agree(wanted, structir.interpret(module, "main", *copied(given)))
        if name in COMPILED:
            assert_agree(wanted, structir.compile(module)["main"](*copied(given)))
