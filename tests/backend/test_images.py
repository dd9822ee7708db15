"""Kernels of the ops on images: every way of reading between elements, in one program each."""

import inspect
from itertools import product

import numpy as np
import pytest

import structir
from structir.ir import TensorStructInfo, Var
from structir.ir.op import find_op
from tests.backend.agreement import assert_agree

MODES = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
ROUNDINGS = ["round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]

RESIZED = [
    *[
        {"method": method, "cubic_exclude": exclude, "coordinate_transformation_mode": mode}
        for method, exclude in [("linear", 0), ("linear", 1), ("cubic", 0), ("cubic", 1)]
        for mode in MODES
    ],
    *[
        {
            "method": "nearest_neighbor",
            "rounding_method": how,
            "coordinate_transformation_mode": mode,
        }
        for how in ROUNDINGS
        for mode in ["half_pixel", "asymmetric"]
    ],
    {"method": "cubic", "out_dtype": "int32"},
]
SAMPLED = [
    {"method": method, "padding_mode": padding, "align_corners": edges}
    for method, padding, edges in product(
        ["nearest", "bilinear", "bicubic"], ["zeros", "border", "reflection"], [True, False]
    )
]


def program(params, *lines):
    """A function that gives the values of all lines."""
    made = [f"        y{k} = {line}" for k, line in enumerate(lines)]
    names = ", ".join([f"y{k}" for k in range(len(lines))])
    head = f"@R.function\ndef main({params}):\n    with R.dataflow():\n"
    end = f"\n        out = ({names},)\n        R.output(out)\n    return out\n"
    return structir.parse(head + "\n".join(made) + end)


def compiled_is_interpreted(module, *given):
    """That a module is one region, and gives what the interpreter gives for each of the values."""
    executable = structir.compile(module)
    assert "main" in executable.direct
    for values in given:
        assert_agree(structir.interpret(module, "main", *values), executable["main"](*values))


def agrees_uncompiled(name, operands, points, *sizes, **how):
    """That a kernel, called at all points as plain Python, fills in what the reference gives."""
    definition = find_op(name).definition
    params = [Var("x", TensorStructInfo(x.shape, x.dtype.name)) for x in operands]
    call = definition.bind((*params, *sizes), how, None)
    wanted = definition.reference(call, (*operands, *sizes))
    found, kernel = np.full_like(wanted, 7), definition.hooks["kernel.cpu"]
    numbers = definition.resolve(call).attributes
    named = list(inspect.signature(kernel).parameters)[len(operands) + 1 :]
    for at in np.ndindex(found.shape[:points]):
        seen = [operands[0][at[:2]], *[x[at[0], :, at[2]] for x in operands[1:]]]
        kernel(*seen, found[at], *[numbers[n] for n in named])
    assert_agree(wanted, found)


def image(*shape, dtype="float32"):
    return (np.random.default_rng(1).standard_normal(shape) * 9).astype(dtype)


@pytest.mark.parametrize("how", RESIZED, ids=lambda how: "-".join(map(str, how.values())))
def test_resize_in_every_way(how):
    for size in [(7, 3), (1, 9), (0, 2)]:
        agrees_uncompiled("image.resize2d", (image(2, 1, 5, 4),), 2, size, **how)
        agrees_uncompiled("image.resize2d", (image(1, 2, 1, 6)[..., ::-1],), 2, size, **how)


@pytest.mark.parametrize("how", SAMPLED, ids=lambda how: "-".join(map(str, how.values())))
def test_grid_sample_in_every_way(how):
    grid = np.random.default_rng(2).uniform(-1.6, 1.6, (2, 2, 4, 5)).astype("float32")
    grid[0, :, 0, 0] = [-1, 1]
    agrees_uncompiled("image.grid_sample", (image(2, 2, 5, 4), grid), 3, **how)
    agrees_uncompiled("image.grid_sample", (image(1, 1, 1, 3), grid[:1, :, ::-1]), 3, **how)


def test_resize_compiled():
    module = program(
        'x: R.Tensor(("n", "h", "w", "c"), "float16"), s: R.Tensor(("m",), "uint8"),'
        ' v: R.Tensor((1, 2, 3, 4, "m"), "uint8")',
        'R.image.resize2d(x, size=(m, 3), layout="NHWC", method="cubic")',
        "R.image.resize3d(v, size=(6, 8, 2 * m))",
    )
    given = [
        (image(2, 5, 4, 3, dtype="float16"), np.zeros(3, "uint8")),
        (image(1, 1, 6, 1, dtype="float16")[..., ::-1], np.zeros(9, "uint8")),
    ]
    compiled_is_interpreted(
        module, *[(x, s, np.abs(image(1, 2, 3, 4, len(s))).astype("uint8")) for x, s in given]
    )


def test_what_is_no_number_reaches_only_what_is_read_from_it():
    x = image(1, 1, 5, 5)
    x[0, 0, 0, 0] = np.nan
    made = find_op("image.resize2d").definition
    call = made.bind((Var("x", TensorStructInfo(x.shape, "float32")), (10, 10)), {}, None)
    assert np.isnan(made.reference(call, (x, (10, 10)))).sum() == 9
    agrees_uncompiled("image.resize2d", (x,), 2, (10, 10))


def test_grid_sample_of_the_other_layout():
    module = program(
        'x: R.Tensor(("n", "h", "w", 3), "float16"), g: R.Tensor(("n", 2, 4, 5), "float16")',
        'R.image.grid_sample(x, g, layout="NHWC")',
    )
    grid = np.random.default_rng(2).uniform(-1, 1, (2, 2, 4, 5)).astype("float16")
    compiled_is_interpreted(module, (image(2, 6, 5, 3, dtype="float16"), grid))


def test_boxes_that_overlap_are_suppressed():
    given = 'b: R.Tensor(("n", "m", 4), "float32"), s: R.Tensor(("n", "c", "m"), "float32")'
    lines = [
        f'R.vision.all_class_non_max_suppression(b, s, R.const({limit}, "int64"),'
        ' R.const(0.3, "float32"), R.const(0.2, "float32"))'
        for limit in (0, 2, 9)
    ]
    rng = np.random.default_rng(4)
    boxes = rng.random((2, 7, 4)).astype("float32")
    boxes[..., 2:] += boxes[..., :2]
    scores = rng.random((2, 3, 7)).astype("float32").round(1)
    scores[0, 1, 2] = np.nan
    none = boxes[:, :0], scores[:, :, :0]
    compiled_is_interpreted(program(given, *lines), (boxes, scores), none)
