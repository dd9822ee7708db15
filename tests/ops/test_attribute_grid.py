"""Ops over grids of their attributes, interpreted and compiled, against stored results of PyTorch,
NumPy and ONNX Runtime.

`tests/data/attribute_grid.py` computes them and records the versions.
"""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import structir
from structir.ir import BlockBuilder
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import symbolic_call

with np.load(Path(__file__).parents[1] / "data" / "attribute_grid.npz") as archive:
    CASES = json.loads(str(archive["described"]))["cases"]
    DATA = archive["data"].tobytes()
BATCH = 25  # calls of one compiled module
BY_OP = defaultdict(list)
for _case in CASES:
    BY_OP[_case["op"]].append(_case)
BATCHES = [
    pytest.param(rows[start : start + BATCH], id=f"{op}-{start}")
    for op, rows in BY_OP.items()
    for start in range(0, len(rows), BATCH)
]
TOLERANCES = {"float32": (1e-4, 1e-5), "float64": (1e-6, 1e-7)}


def restored(value):
    """Decodes a stored argument or result."""
    ((kind, content),) = value.items()
    if kind == "array":
        offset, dtype, shape = content
        count = int(np.prod(shape))
        return np.frombuffer(DATA, dtype, count, offset).reshape(shape)
    if kind == "value":
        return content
    return {"list": list, "tuple": tuple}[kind]([restored(item) for item in content])


def assert_same(result, expected):
    if isinstance(expected, tuple):
        assert isinstance(result, tuple) and len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            assert_same(one, other)
        return
    result = np.asarray(result)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    rtol, atol = TOLERANCES.get(expected.dtype.name, (0, 0))
    np.testing.assert_allclose(result, expected, rtol, atol)


def text_of(case):
    """The call, for messages."""
    args = [restored(a) for a in case["args"]]
    shown = [f"{a.dtype}{a.shape}" if hasattr(a, "dtype") else a for a in args]
    return f"{case['op']}({shown}, { ({n: restored(v) for n, v in case['keywords'].items()}) })"


def module_of(cases, *, is_symbolic=False):
    """A module with one function for each call, and the arguments of each.

    At symbolic sizes each size over 1 of a call is a dim, and equal sizes are the same dim.
    """
    builder, values = BlockBuilder(), []
    for index, case in enumerate(cases):
        args = [restored(a) for a in case["args"]]
        keywords = {name: restored(v) for name, v in case["keywords"].items()}
        call, known = symbolic_call(case["op"], args, keywords, {} if is_symbolic else None)
        with builder.function(f"call{index}", list(known)):
            builder.emit_func_output(builder.emit(call))
        values.append(tuple(known.values()))
    return builder.get(), values


def differences(cases, run, values):
    """Returns a message for each call whose result differs."""
    messages = []
    for index, (case, args) in enumerate(zip(cases, values, strict=True)):
        try:
            with np.errstate(all="ignore"):
                assert_same(run(f"call{index}", args), restored(case["result"]))
        except (AssertionError, structir.errors.StructIRError) as error:
            messages.append(f"{text_of(case)}: {error}")
    return messages


# ops whose attributes no other library has; most are in test_independent.py
WITHOUT_GRID = set(
    [
        "constant_like",
        "eye_like",
        "full_like",
        "grad.avg_pool2d_backward",
        "grad.max_pool2d_backward",
        "grad.nll_loss_backward",
        "grad.take_backward",
        "linear_recurrence",
        "memory.view",
        "multinomial_from_uniform",
        "nn.attention_var_len",
        "nn.class_indices",
        "nn.dropout",
        "to_vdevice",
        "tropical",
        "vision.all_class_non_max_suppression",
        "vision.get_valid_counts",
        "vision.roi_pool",
        "wrap_param",
    ]
)
WITHOUT_GRID |= {"linalg.qr", "linalg.svd"}  # in test_matrix_factors.py
WITHOUT_GRID |= {"linalg.solve_triangular"}  # both triangles are in test_independent.py


DEFINITIONS = [op.definition for op in BUILT_IN_OPS.values()]
WITH_ATTRIBUTES = {d.name for d in DEFINITIONS if d.signature.attributes}


def test_every_op_with_attributes_is_in_the_grid():
    assert WITH_ATTRIBUTES - set(BY_OP) == WITHOUT_GRID


@pytest.mark.sampled(12)
@pytest.mark.parametrize("cases", BATCHES)
def test_interpreted_calls_match_other_libraries(cases):
    module, values = module_of(cases)

    def run(name, args):
        return structir.interpret(module, name, *args)

    assert not (messages := differences(cases, run, values)), "\n".join(messages)


def covering(cases):
    """Returns calls that contain every attribute, and every shape and dtype of an argument."""
    selected, covered = [], set()
    for case in cases:
        args = [restored(argument) for argument in case["args"]]
        traits = [f"{name}={value}" for name, value in case["keywords"].items()]
        traits += [
            f"{k}: {a.dtype}{a.shape}" if hasattr(a, "dtype") else f"{k}: {a}"
            for k, a in enumerate(args)
        ]
        if not covered.issuperset(traits):
            covered.update(traits)
            selected.append(case)
    return selected


# Every sixth call is compiled at its sizes, every sixth one at symbolic sizes: an attribute that
# three of them have is compiled in one form or the other.
COMPILED = [
    pytest.param(rows[start : start + BATCH], id=f"{op}-{start}")
    for op, rows in ((op, covering(rows)) for op, rows in BY_OP.items())
    for start in range(0, len(rows), BATCH)
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("cases", COMPILED)
def test_compiled_calls_match_other_libraries(cases):
    cases = cases[::6]
    module, values = module_of(cases)
    executable = structir.compile(module)
    assert not (messages := differences(cases, lambda n, a: executable[n](*a), values)), "\n".join(
        messages
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("cases", BATCHES)
def test_interpreted_calls_at_symbolic_sizes_match_other_libraries(cases):
    module, values = module_of(cases, is_symbolic=True)

    def run(name, args):
        return structir.interpret(module, name, *args)

    assert not (messages := differences(cases, run, values)), "\n".join(messages)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cases", COMPILED)
def test_compiled_calls_at_symbolic_sizes_match_other_libraries(cases):
    cases = cases[3::6] or cases[:1]
    module, values = module_of(cases, is_symbolic=True)
    executable = structir.compile(module)
    assert not (messages := differences(cases, lambda n, a: executable[n](*a), values)), "\n".join(
        messages
    )
