"""Every registered op: inferred StructInfo matches results, and wrong calls are diagnostics."""

import collections
import json
import warnings
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.ir.dims import evaluate, syms
from structir.ir.dtype import numpy_dtype
from structir.opdef.parameters import REQUIRED
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import called

OPS = BUILT_IN_OPS
FACTS = Path(__file__).parent.parent / "conformance" / "op_struct_info.jsonl"
SIZES = (
    (2, 3, 4, 5, 6),
    (1, 1, 1, 1, 1),
    (4, 4, 4, 4, 4),
    (8, 8, 8, 8, 8),
    (0, 0, 0, 0, 0),
    (3, 2, 1, 4, 2),
)
LARGEST = 250_000  # elements of an operand; pools of images would take seconds

every_op = pytest.mark.parametrize("name", sorted(OPS))


def programs():
    """Returns the accepted programs of the conformance facts, by op."""
    result = collections.defaultdict(list)
    for line in FACTS.read_text().splitlines():
        case = json.loads(line)
        if not case.get("quirk") and not case["expect"].get("error"):
            result[case["op"].removeprefix("relax.")].append(case)
    return result


PROGRAMS = programs()


def array(rng, shape, dtype):
    """Generates small numbers of a dtype, some of them equal, as a strided view.

    Without a generator, numbers that are good as any index."""
    if rng is None:
        return np.full(shape, 0.1).astype(numpy_dtype(dtype))
    kind = numpy_dtype(dtype).kind
    if dtype == "bool":
        values = rng.random(shape) > 0.5
    elif kind in "iu":
        values = rng.integers(0, 3, shape)
    else:
        values = rng.integers(-3, 4, shape) / 2 + 0.1
    steps = (slice(1, None, 2), slice(None, None, -2))
    every_second = (*(steps[axis % 2] for axis in range(len(shape))), ...)
    view = np.empty([2 * n for n in shape], numpy_dtype(dtype))[every_second]
    view[...] = values
    return view


def value_for(info, sizes, rng):
    """Generates a value of a StructInfo; None where the StructInfo determines no value."""
    match info:
        case TensorStructInfo():
            dims = info.dims if isinstance(info.dims, tuple) else (2,) * (info.ndim or 2)
            return array(rng, [evaluate(d, sizes) for d in dims], info.dtype or "float32")
        case ShapeStructInfo():
            dims = info.dims if info.dims is not None else (2,) * (info.ndim or 2)
            return tuple(evaluate(d, sizes) for d in dims)
        case PrimStructInfo():
            known = info.value is not None
            return evaluate(info.value, sizes) if known else {"bool": True}.get(info.dtype, 1)
        case TupleStructInfo():
            fields = [value_for(f, sizes, rng) for f in info.fields]
            return None if any(f is None for f in fields) else tuple(fields)
    return None


def symbols(info):
    """Returns the symbolic dims of a parameter."""
    if isinstance(info, TupleStructInfo):
        return {s for f in info.fields for s in symbols(f)}
    dims = getattr(info, "dims", None)
    return {s for d in dims for s in syms(d)} if isinstance(dims, tuple) else set()


def sizes_of(infos):
    """Yields sizes for the symbolic dims of parameters, without those that take seconds."""
    names = sorted({s for i in infos for s in symbols(i)}, key=lambda s: s.order)
    for choice in SIZES if names else SIZES[:1]:
        sizes = {s: choice[k % len(choice)] for k, s in enumerate(names)}
        shapes = [evaluate_all(info.dims, sizes) for info in infos if hasattr(info, "dims")]
        if all(prod(shape) < LARGEST for shape in shapes):
            yield sizes


def evaluate_all(dims, sizes):
    return [evaluate(d, sizes) for d in dims] if isinstance(dims, tuple) else []


def assert_runs(script):
    """Runs a program at several sizes; the interpreter checks results against StructInfo."""
    mod = structir.parse(script)
    (function,) = mod.functions.values()
    infos = [p.struct_info for p in function.params]
    for sizes in sizes_of(infos):
        for rng in (np.random.default_rng(5), None):  # all numbers are 0 where others are rejected
            args = [value_for(i, sizes, rng) for i in infos]
            if any(a is None for a in args) or result_fits(mod, infos, args):
                break


def result_fits(mod, infos, args):
    """Checks that a result matches its StructInfo, unless a shape of the program is unknown.

    Returns whether there is a result.
    """
    try:
        structir.interpret(mod, next(iter(mod.functions)), *args)
    except ShapeMismatchError as error:
        known = all(getattr(info, "dims", ()) is not None for info in infos)
        assert not (known and "main: result" in str(error)), str(error)
        return False
    return True


@every_op
@pytest.mark.filterwarnings("ignore")
def test_inferred_struct_info_matches_the_value(name):
    for args, keywords in OPS[name].definition.examples:
        call, values = called(name, *args, **keywords)
        assert_fits(call.struct_info, call.op.definition.reference(call, values))
    for case in PROGRAMS[name]:
        assert_runs(case["script"])


# Random calls: an accepted call runs, any other call is a diagnostic.

RANDOM_CALLS = 20  # of each op
SIZES_OF_AXES = (0, 1, 1, 2, 3, 4)
DTYPES = ("float32",) * 4 + ("int64",) * 2 + ("bool", "int8", "float16", "float64", "bfloat16")
STATIC = (0.5, 1.0, True, False, None, "float32", "int64", "NCHW", "add", "ij,jk->ik", "nonsense")


def random_shape(rng):
    return tuple(rng.choices(SIZES_OF_AXES, k=rng.randint(0, 3)))


def random_operand(rng, shape, dtype):
    """Generates an array: the same, with some axes of size 1, or of another shape."""
    kind = rng.choice(["same", "same", "ones", "other", "index"])
    if kind == "ones":
        shape = tuple([rng.choice([n, 1]) for n in shape])
    elif kind == "other":
        shape = random_shape(rng)
    elif kind == "index":
        dtype = "int64"
    return array(np.random.default_rng(rng.randint(0, 9)), shape, dtype)


def random_attribute(rng):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randint(-2, 3)
    if kind == 1:
        return tuple([rng.randint(-2, 3) for _ in range(rng.randint(0, 4))])
    return rng.choice(STATIC)


def random_arguments(rng, signature):
    """Generates operands and attributes of an op; most attributes keep their default."""
    shape, dtype = random_shape(rng), rng.choice(DTYPES)
    keywords = {}
    for parameter in signature.parameters:
        if parameter.default is not REQUIRED and rng.randint(0, 3):
            continue
        if parameter.kind is not None:
            keywords[parameter.name] = random_attribute(rng)
        elif parameter.is_list:
            operands = [random_operand(rng, shape, dtype) for _ in range(rng.randint(0, 3))]
            keywords[parameter.name] = operands
        else:
            keywords[parameter.name] = random_operand(rng, shape, dtype)
    return keywords


@pytest.mark.sampled(40)
@every_op
def test_calls_run_or_are_rejected(name):
    for seed in range(RANDOM_CALLS):
        keywords = random_arguments(Random(f"{name} {seed}"), OPS[name].definition.signature)
        try:
            assert_runs_or_is_rejected(name, keywords)
        except Exception as error:
            error.add_note(f"{name}, seed {seed}: {keywords}")
            raise


def assert_runs_or_is_rejected(name, keywords):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call, values = called(name, **keywords)
    except DiagnosticError:
        return
    try:
        result = call.op.definition.reference(call, values)
    except (DiagnosticError, ShapeMismatchError):
        return
    assert_fits(call.struct_info, result)


def assert_fits(info, value):
    """Returns whether a value matches its StructInfo."""
    match info:
        case TensorStructInfo():
            assert isinstance(value, np.ndarray)
            assert info.ndim in (None, value.ndim)
            assert info.dtype in (None, value.dtype.name)
            assert info.dims is None or info.dims == value.shape
        case TupleStructInfo():
            assert isinstance(value, tuple) and len(value) == len(info.fields)
            for field, part in zip(info.fields, value, strict=True):
                assert_fits(field, part)
        case ShapeStructInfo():
            assert isinstance(value, tuple)
            assert info.dims is None or info.dims == value
