"""Gradients of every op: each has one or says why not; they are those of finite differences; as
expressions at symbolic sizes they read back, and interpreted and compiled they are the same."""

import re

import numpy as np
import pytest

import structir
from structir import ops
from structir.errors import DiagnosticError
from structir.ir import (
    BlockBuilder,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    registered_ops,
    structural_equal,
)
from structir.ir.dtype import is_float
from structir.opdef.gradient import describe_gradient, gradients
from tests.backend.agreement import assert_agree, copied
from tests.ops.calls import called, symbolic_call

ops.load()
OPS = {
    op.name: op.definition for op in registered_ops() if hasattr(op.definition, "index_signature")
}
# Compiling takes most of the time: every gradient that is a rule of its own, and one in four of
# those that all come from a line and body in the same way.
COMPILED = {n for k, n in enumerate(sorted(OPS)) if k % 4 == 0 or "gradient" in OPS[n].hooks}
every_op = pytest.mark.parametrize("name", sorted(OPS))


def near(value, seed):
    """A value with its floating-point numbers in double precision, a little off kinks and ties."""
    if isinstance(value, tuple | list):
        return type(value)(near(v, seed + k) for k, v in enumerate(value))
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    return np.asarray(value + 0.01 * np.random.default_rng(seed).uniform(0.5, 1, value.shape))


def examples(name):
    """The examples of an op at which it can be differentiated."""
    for args, keywords in OPS[name].examples:
        yield (
            [near(a, 3 * k) for k, a in enumerate(args)],
            {n: near(v, 7) for n, v in keywords.items()},
        )


def direction(value, seed):
    """A direction for a value, None where it is no real number."""
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
    """The scalar product of two values; None counts for nothing."""
    if a is None or b is None:
        return 0.0
    if isinstance(a, tuple):
        return sum(pairing(x, y) for x, y in zip(a, b, strict=True))
    return float((a.astype("float64") * b).sum())


@every_op
def test_an_op_says_whether_it_has_a_gradient(name):
    for args, keywords in examples(name):
        call, _ = called(name, *args, **keywords)
        assert describe_gradient(OPS[name], call), (
            "declare it by a hook: gradient or non_differentiable"
        )


@every_op
@pytest.mark.filterwarnings("ignore")
def test_gradients_match_differences(name):
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
        # where something is cast to float32 on the way, only a long step can be seen
        assert fine or own == pytest.approx(slope(1e-2), rel=1e-2, abs=1e-2)


def differentiated(name, args, keywords, symbols):
    """A module whose `main` gives what comes back to the operands of a call, from its operands and
    what comes back to its result; and the values of the operands."""
    call, known = symbolic_call(name, args, keywords, symbols)
    backs = variables(call.struct_info)
    builder = BlockBuilder()
    with builder.function("main", [*known, *flat(backs)]):
        with builder.dataflow():
            result = builder.emit(call)
            found = OPS[name].adjoint(call, result, backs, builder.emit)
            output = builder.emit_output(Tuple(tuple(flat(tuple(found)))))
        builder.emit_func_output(output)
    return builder.get(), tuple(known.values())


def variables(info):
    """Variables for what comes back to a result."""
    if isinstance(info, TupleStructInfo):
        return tuple(variables(f) for f in info.fields)
    real = isinstance(info, TensorStructInfo) and is_float(info.dtype or "int64")
    return Var("back", info) if real else None


def flat(value):
    """What is there in a nest of tuples, in order."""
    if isinstance(value, tuple):
        return [part for v in value for part in flat(v)]
    return [] if value is None else [value]


@pytest.mark.sampled(60)
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
