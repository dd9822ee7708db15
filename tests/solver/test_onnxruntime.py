"""Compares index signatures in the solver with ONNX Runtime, on valid and invalid operands."""

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import attrs
import numpy as np
import pytest

from structir.errors import StructIRError
from structir.ir.expr import Call, Tuple, Var
from structir.ir.op import find_op
from structir.ir.struct_info import TensorStructInfo
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.constraint_schemes import scheme_of
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.solver import ConstraintSolver, Value

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

Shape = tuple[int, ...]
INSTANCES = 130  # of each op


@attrs.frozen
class Instance:
    """An op on operands of these shapes, in StructIR and in ONNX."""

    onnx_op: str
    ours: str
    shapes: tuple[Shape, ...]
    onnx_attrs: dict[str, Any] = attrs.Factory(dict)
    our_attrs: dict[str, Any] = attrs.Factory(dict)
    constants: tuple[tuple[int, ...], ...] = ()  # further ONNX inputs, of integers
    listed: bool = False  # the operands are one list


def size(random: Random) -> int:
    return random.choice((1, 2, 2, 3, 4, 5))


def shape(random: Random, low: int = 0, high: int = 4) -> Shape:
    return tuple(size(random) for _ in range(random.randint(low, high)))


def near(random: Random, wanted: Shape) -> Shape:
    """Returns mostly this shape, sometimes a slightly wrong one."""
    if random.random() < 0.7 or not wanted:
        return wanted
    place = random.randrange(len(wanted))
    if random.random() < 0.3:
        return wanted[:place] + wanted[place + 1 :]
    return (*wanted[:place], size(random), *wanted[place + 1 :])


def narrow(random: Random, wide: Shape) -> Shape:
    kept = wide[random.randint(0, len(wide)) :]
    return near(random, tuple(s if random.random() < 0.6 else 1 for s in kept))


def axis_of(random: Random, rank: int) -> int:
    return random.randint(-rank - (random.random() < 0.1), max(rank - 1, 0))


def elementwise(name: str, ours: str) -> Callable[[Random], Instance]:
    def draw(random: Random) -> Instance:
        first = shape(random)
        return Instance(name, ours, (first, narrow(random, first)))

    return draw


def matmul(random: Random) -> Instance:
    batch, (m, k, n) = shape(random, 0, 2), (size(random), size(random), size(random))
    left = random.choice([(*batch, m, k), (m, k), (k,)])
    right = random.choice([(*narrow(random, batch), k, n), (k, n), (k,)])
    return Instance("MatMul", "matmul", (left, near(random, right)))


def conv(random: Random) -> Instance:
    groups, inner = random.choice((1, 1, 2)), size(random)
    strides, pads = [random.choice((1, 2))] * 2, [random.choice((0, 1))] * 4
    dilation = [random.choice((1, 1, 2))] * 2
    x = (size(random), groups * inner, random.randint(3, 7), random.randint(3, 7))
    w = (groups * size(random), inner, random.randint(1, 3), random.randint(1, 3))
    return Instance(
        "Conv",
        "nn.conv2d",
        (near(random, x), near(random, w)),
        {"strides": strides, "pads": pads, "dilations": dilation, "group": groups},
        {"strides": strides, "padding": pads, "dilation": dilation, "groups": groups},
    )


def conv_transpose(random: Random) -> Instance:
    strides, inner = [random.choice((1, 2))] * 2, size(random)
    x = (size(random), inner, random.randint(1, 5), random.randint(1, 5))
    w = (inner, size(random), random.randint(1, 3), random.randint(1, 3))
    return Instance(
        "ConvTranspose",
        "nn.conv2d_transpose",
        (x, near(random, w)),
        {"strides": strides},
        {"strides": strides},
    )


def pool(name: str, ours: str) -> Callable[[Random], Instance]:
    def draw(random: Random) -> Instance:
        kernel = [random.randint(1, 3), random.randint(1, 3)]
        strides = [random.choice((1, 2))] * 2
        pads = [random.choice((0, 0, 1)) if min(kernel) > 1 else 0] * 4
        x = (size(random), size(random), random.randint(3, 7), random.randint(3, 7))
        if random.random() < 0.2:
            x = x[:3]  # a window that does not fit is rounded up by the runtime: not drawn
        return Instance(
            name,
            ours,
            (x,),
            {"kernel_shape": kernel, "strides": strides, "pads": pads},
            {"pool_size": kernel, "strides": strides, "padding": pads},
        )

    return draw


def concat(random: Random) -> Instance:
    first = shape(random, 1)
    axis = axis_of(random, len(first))
    other = list(first)
    if -len(first) <= axis < len(first):
        other[axis] = size(random)
    shapes = (first, near(random, tuple(other)))
    return Instance("Concat", "concat", shapes, {"axis": axis}, {"axis": axis}, listed=True)


def transpose(random: Random) -> Instance:
    x = shape(random, 1)
    order = random.sample(range(len(x)), len(x))
    if random.random() < 0.2:
        order = order[:-1]
    if not order:
        order = [0]
    return Instance("Transpose", "permute_dims", (x,), {"perm": order}, {"axes": order})


def softmax(random: Random) -> Instance:
    x = shape(random, 1)
    axis = axis_of(random, len(x))
    return Instance("Softmax", "nn.softmax", (x,), {"axis": axis}, {"axis": axis})


def reduced(random: Random) -> Instance:
    x, keep = shape(random, 1), random.random() < 0.5
    axis = axis_of(random, len(x))
    return Instance(
        "ReduceSum",
        "sum",
        (x,),
        {"keepdims": int(keep)},
        {"axis": [axis], "keepdims": keep},
        constants=((axis,),),
    )


def expand_dims(random: Random) -> Instance:
    x = shape(random, 0, 3)
    axis = axis_of(random, len(x) + 1)
    return Instance("Unsqueeze", "expand_dims", (x,), {}, {"axis": [axis]}, constants=((axis,),))


def squeeze(random: Random) -> Instance:
    x = tuple(random.choice((1, 1, 2)) for _ in range(random.randint(1, 3)))
    axis = x.index(1) if 1 in x else len(x)  # an axis of another size stays as it is here
    return Instance("Squeeze", "squeeze", (x,), {}, {"axis": [axis]}, constants=((axis,),))


def reshape(random: Random) -> Instance:
    x = shape(random, 1, 3)
    target = list(random.sample(x, len(x)))
    if random.random() < 0.5:
        target[random.randrange(len(target))] = -1
    if random.random() < 0.3:
        target.append(random.choice((1, 2)))
    return Instance("Reshape", "reshape", (x,), {}, {"shape": target}, constants=(tuple(target),))


def tile(random: Random) -> Instance:
    x = shape(random, 1, 3)
    repeats = [random.choice((1, 2, 3)) for _ in x]
    return Instance("Tile", "tile", (x,), {}, {"repeats": repeats}, constants=(tuple(repeats),))


def gathered(random: Random) -> Instance:
    x = shape(random, 1, 3)
    axis = random.randrange(len(x))
    places = tuple(random.randrange(x[axis]) for _ in range(size(random)))
    return Instance("Gather", "take", (x,), {"axis": axis}, {"axis": axis}, constants=(places,))


DRAWN: tuple[Callable[[Random], Instance], ...] = (
    elementwise("Add", "add"),
    elementwise("Mul", "multiply"),
    elementwise("Sub", "subtract"),
    matmul,
    conv,
    conv_transpose,
    pool("MaxPool", "nn.max_pool2d"),
    pool("AveragePool", "nn.avg_pool2d"),
    concat,
    transpose,
    softmax,
    reduced,
    expand_dims,
    squeeze,
    reshape,
    tile,
    gathered,
)


def of_runtime(case: Instance) -> Shape | None:
    """Returns the shape of ONNX Runtime's result; None if it rejects the operands."""
    helper, kind = onnx.helper, onnx.TensorProto
    inputs = [f"x{k}" for k in range(len(case.shapes))]
    names = [*inputs, *[f"c{k}" for k in range(len(case.constants))]]
    node = helper.make_node(case.onnx_op, names, ["y"], **case.onnx_attrs)
    info = [
        helper.make_tensor_value_info(name, kind.FLOAT, own)
        for name, own in zip(inputs, case.shapes, strict=True)
    ]
    constants = [
        helper.make_tensor(f"c{k}", kind.INT64, [len(value)], value)
        for k, value in enumerate(case.constants)
    ]
    result = helper.make_tensor_value_info("y", kind.FLOAT, None)
    graph = helper.make_graph([node], "g", info, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    try:
        session = runtime.InferenceSession(model.SerializeToString(), quiet())
        feeds = {n: np.ones(s, np.float32) for n, s in zip(inputs, case.shapes, strict=True)}
        (found,) = session.run(None, feeds)
    except Exception:  # the runtime has many classes of errors, and raises plain ones too
        return None
    return tuple(found.shape)


@cache
def quiet() -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options


def of_line(case: Instance) -> Shape | None:
    """Returns the solver's shape of the result; None if it rejects the operands."""
    op = find_op(case.ours)
    assert op is not None
    operands: list[Any] = [Var("x", TensorStructInfo(s, "float32")) for s in case.shapes]
    if case.ours == "take":
        operands.append(Var("ids", TensorStructInfo((len(case.constants[0]),), "int64")))
    args = (Tuple(tuple(operands)),) if case.listed else tuple(operands)
    try:
        call = op.definition.bind(args, case.our_attrs, None)
        return solved(call)
    except (StructIRError, Conflict, InvalidCall):
        return None


def solved(call: Call) -> Shape:
    found = scheme_of(call, [arg.struct_info for arg in call.args])
    assert found is not None
    solver, values, result = ConstraintSolver(), list[Value](), Value("y")
    for place, member in found.paths:
        arg: Any = call.args[place] if member is None else call.args[place].fields[member]  # type: ignore[attr-defined]
        value = Value(arg.name)
        solver.assert_shape(value, arg.struct_info.dims, Origin(arg.name, "parameter"))
        values.append(value)
    solver.apply(found.scheme, values, [result], Origin("op"))
    solver.solve()
    return solver.shape(result)  # type: ignore[return-value]


@pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__qualname__)
def test_solver_and_onnxruntime_agree(draw: Callable[[Random], Instance]) -> None:
    random = Random(draw.__qualname__)
    cases = [draw(random) for _ in range(INSTANCES)]
    different = [
        f"{case}: {of_line(case)}, not {found}"
        for case in cases
        if of_line(case) != (found := of_runtime(case))
    ]
    assert different == []
