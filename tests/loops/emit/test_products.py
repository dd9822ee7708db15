"""Products by packed panels, and by tables of offsets: compiled, interpreted, and scheduled."""

from functools import partial

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.ir import IRModule, Kernel, structural_equal
from structir.loops.emit import gathered, library, packed
from structir.passes import Schedule, bind_params
from structir.script import I, R


def floats(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


PACKED = """
@I.kernel
def product(
    x: R.Tensor(("n", 40), "{0}"), w: R.Tensor((21, 40), "{0}"), out: R.Tensor(("n", 21), "{0}")
):
    n = T.int64()
    panels = T.empty((32, 40), "{0}")
    T.pack_panels(panels.flat[0], w.flat[0], 40, 21, {1}, 1, 40)
    T.packed_product(x.flat[0], panels.flat[0], out.flat[0], n, 21, 40, {1}, 40, 1, 21)

@R.function
def main(x: R.Tensor(("n", 40), "{0}"), w: R.Tensor((21, 40), "{0}")):
    n = T.int64()
    return R.call_kernel(product, (x, w), out_sinfo=R.Tensor((n, 21), "{0}"))
"""
COLUMNS = """
@I.kernel
def product(
    x: R.Tensor(("n", 40), "{dtype}"), w: R.Tensor((40, 500), "{dtype}"),
    out: R.Tensor(("n", {columns}), "{dtype}"),
):
    n = T.int64()
    T.column_product(
        x.flat[0], w.flat[0], out.flat[0], n, {columns}, 40, 40, 1, 500, {first}, 500, 1, {columns}
    )

@R.function
def main(x: R.Tensor(("n", 40), "{dtype}"), w: R.Tensor((40, 500), "{dtype}")):
    n = T.int64()
    return R.call_kernel(product, (x, w), out_sinfo=R.Tensor((n, {columns}), "{dtype}"))
"""
GATHERED = """
@I.kernel
def product(
    x: R.Tensor((5, 6), "float32"), line: R.Tensor((40,), "float32"),
    starts: R.Tensor((6,), "int64"), out: R.Tensor((5, 21), "float32"),
):
    T.gathered_product(x.flat[0], line.flat[1], starts.flat[0], out.flat[0], 5, 21, 6, 6, 39, 21)

@R.function
def main(
    x: R.Tensor((5, 6), "float32"), line: R.Tensor((40,), "float32"),
    starts: R.Tensor((6,), "int64"),
):
    return R.call_kernel(product, (x, line, starts), out_sinfo=R.Tensor((5, 21), "float32"))
"""
PIXELS = """
@I.kernel
def product(
    w: R.Tensor((48, 6), "float32"), image: R.Tensor((90,), "float32"),
    starts: R.Tensor((6,), "int64"), points: R.Tensor((33,), "int64"),
    out: R.Tensor(({rows}, 33), "float32"),
):
    T.pixel_product(
        w.flat[0], image.flat[0], starts.flat[0], points.flat[0], out.flat[0],
        {rows}, 33, 6, 48, 6, {first}, 90, 33,
    )

@R.function
def main(
    image: R.Tensor((90,), "float32"), starts: R.Tensor((6,), "int64"),
    points: R.Tensor((33,), "int64"), w: R.Tensor((48, 6), "float32"),
):
    return R.call_kernel(
        product, (w, image, starts, points), out_sinfo=R.Tensor(({rows}, 33), "float32")
    )
"""


def without_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {packed: "has_own_products", library: "has_own_products"}
    for module, name in {**names, gathered: "has_products_of_floats"}.items():
        monkeypatch.setattr(module, name, lambda dtype: False)


def check(module: IRModule, *args: np.ndarray) -> np.ndarray:
    """Returns the result, which is the interpreter's."""
    assert structural_equal(structir.parse(module.script()), module)
    result = structir.compile(module)["main"](*args)
    np.testing.assert_allclose(result, structir.interpret(module, "main", *args), 1e-5, 1e-5)
    return result


@pytest.mark.parametrize("tiles", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_packed_product(dtype: str, tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not tiles:
        without_tiles(monkeypatch)
    x, w = floats(7, 40, dtype=dtype), floats(21, 40, dtype=dtype, seed=1)
    result = check(structir.parse(PACKED.format(dtype, 32)), x, w)
    np.testing.assert_allclose(result, x @ w.T, 1e-4, 1e-4)


def errors(module: IRModule, *args: np.ndarray) -> str:
    """Returns the message of the error, compiled and interpreted."""
    messages = []
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        with pytest.raises(StructIRError) as error:
            run(*args)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    return messages[0]


def test_panels_have_room_for_whole_vectors() -> None:
    message = errors(structir.parse(PACKED.format("float32", 31)), floats(7, 40), floats(21, 40))
    assert "index 31 is out of range for panels.flat" in message


@pytest.mark.parametrize("tiles", [True, False])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("first", "columns"), [(0, 192), (192, 308), (0, 500), (192, 9), (7, 90)])
def test_a_product_by_some_columns(
    first: int,
    columns: int,
    dtype: str,
    constant: bool,
    tiles: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not tiles:
        without_tiles(monkeypatch)
    x, w = floats(7, 40, dtype=dtype), floats(40, 500, dtype=dtype, seed=1)
    module = structir.parse(COLUMNS.format(first=first, columns=columns, dtype=dtype))
    args = [x, w]
    if constant:
        module = bind_params(values={"w": args.pop()})(module)
    result = check(module, *args)
    np.testing.assert_allclose(result, x @ w[:, first : first + columns], 1e-4, 1e-4)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("first", "columns"), [(-16, 32), (192, 309), (600, 9)])
def test_columns_are_inside(first: int, columns: int, constant: bool) -> None:
    text = COLUMNS.format(first=first, columns=columns, dtype="float32")
    module, args = structir.parse(text), [floats(7, 40), floats(40, 500)]
    if constant:
        module = bind_params(values={"w": args.pop()})(module)
    assert "is out of range" in errors(module, *args)


@pytest.mark.parametrize("tiles", [True, False])
def test_a_gathered_product(tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not tiles:
        without_tiles(monkeypatch)
    x, line, starts = floats(5, 6), floats(40), np.array([0, 3, 18, 7, 7, 1])
    result = check(structir.parse(GATHERED), x, line, starts)
    expected = x @ line[1 + starts[:, None] + np.arange(21)]
    np.testing.assert_allclose(result, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("starts", [(0, 3, 19, 7, 7, 1), (0, -1, 2, 3, 4, 5), (39, 0, 0, 0, 0, 0)])
def test_gathered_lines_are_inside(starts: tuple[int, ...]) -> None:
    message = errors(structir.parse(GATHERED), floats(5, 6), floats(40), np.array(starts))
    assert "is out of range" in message


@pytest.mark.parametrize("tiles", [True, False])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("rows", "first"), [(16, 32), (5, 16), (9, 3), (48, 0)])
def test_a_product_of_pixels(
    rows: int, first: int, constant: bool, tiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not tiles:
        without_tiles(monkeypatch)
    rng, w = np.random.default_rng(0), floats(48, 6)
    image, starts, points = floats(90), rng.integers(0, 40, 6), rng.integers(0, 40, 33)
    module = structir.parse(PIXELS.format(rows=rows, first=first))
    args = [image, starts, points, w]
    if constant:
        module = bind_params(values={"w": args.pop()})(module)
    result = check(module, *args)
    expected = w[first : first + rows] @ image[starts[:, None] + points]
    np.testing.assert_allclose(result, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("rows", "first", "last"), [(16, 40, 10), (16, -16, 10), (16, 0, 50)])
def test_pixels_and_weights_are_inside(rows: int, first: int, last: int, constant: bool) -> None:
    module = structir.parse(PIXELS.format(rows=rows, first=first))
    starts, points = np.full(6, 40), np.full(33, last)
    args = [floats(90), starts, points, floats(48, 6)]
    if constant:
        module = bind_params(values={"w": args.pop()})(module)
    assert "is out of range" in errors(module, *args)


@I.ir_module
class Products:
    @R.function
    def images(x: R.Tensor(("n", 32, 9, 11), "float32"), w: R.Tensor((16, 32, 3, 3), "float32")):
        return R.nn.relu(R.nn.conv2d(x, w))

    @R.function
    def windows(x: R.Tensor(("n", 3, 9, 11), "float32"), w: R.Tensor((5, 3, 3, 3), "float32")):
        return R.nn.relu(R.nn.conv2d(x, w))

    @R.function
    def columns(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 1000), "float32")):
        return R.nn.relu(R.matmul(x, w))

    @R.function
    def batches(q: R.Tensor((2, "s", 8), "float32"), k: R.Tensor((2, "u", 8), "float32")):
        return R.matmul(q, R.permute_dims(k, (0, 2, 1)))

    @R.function
    def attention(q: R.Tensor((2, "s", 8), "float32"), k: R.Tensor((2, "u", 8), "float32")):
        return R.nn.softmax(R.matmul(q, R.permute_dims(k, (0, 2, 1))))


def arguments(name: str) -> list[np.ndarray]:
    if name == "columns":
        return [floats(9, 64)]
    if name in ("attention", "batches"):
        return [floats(2, 5, 8), floats(2, 19, 8, seed=1)]
    if name == "images":
        return [floats(2, 32, 9, 11)]
    return [floats(2, 3, 9, 11), floats(5, 3, 3, 3)]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("images", "pixel_product"),
        ("windows", "gathered_product"),
        ("attention", "pack_panels"),
        ("batches", "tiled_product"),
        ("columns", "column_product"),
    ],
)
def test_scheduled_products_are_kernels(name: str, call: str) -> None:
    """Users see the kernel that is compiled, and the interpreter runs it."""
    module = IRModule({name: Products[name]})
    if name == "images":
        module = bind_params(values={"w": floats(16, 32, 3, 3)}, function=name)(module)
    if name == "columns":
        module = bind_params(values={"w": floats(64, 1000)}, function=name)(module)
    scheduled, args = Schedule()(module), arguments(name)
    (kernel,) = [f for f in scheduled.functions.values() if isinstance(f, Kernel)]
    assert not packed.has_own_products("float32") or f"T.{call}(" in str(kernel)
    assert structural_equal(structir.parse(scheduled.script()), scheduled)
    result = structir.compile(scheduled)[name](*args)
    np.testing.assert_array_equal(result, structir.compile(module)[name](*args))
    np.testing.assert_allclose(structir.interpret(scheduled, name, *args), result, 1e-4, 1e-4)
