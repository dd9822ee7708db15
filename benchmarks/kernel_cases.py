"""What `kernels.py` measures: each computation in every peer's language, and the ratios that are
asked for."""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

import minilm_model

Array = np.ndarray[Any, np.dtype[Any]]
Node = tuple[str, tuple[str, ...], dict[str, Any]]
ORT, TORCH, COMPILED, JAX, BLAS = "ONNX Runtime", "torch", "torch.compile", "JAX", "OpenBLAS"
PEERS = (ORT, TORCH, COMPILED, JAX, BLAS)


@attrs.frozen
class Case:
    """A computation of `x0`, `x1`... and constants. Each line and each node makes the next of `t0`,
    `t1`..., and the last is the result. The functions take their library, the inputs, then the
    constants; of those that are there, each makes a peer."""

    name: str
    lines: list[str]
    inputs: list[tuple[int, ...]]
    nodes: list[Node] = attrs.Factory(list)
    constants: dict[str, Array] = attrs.Factory(dict)
    torch: Callable[..., Any] | None = None
    jax: Callable[..., Any] | None = None
    numpy: Callable[..., Any] | None = None
    compiled: bool = False  # by torch.compile as well
    eager: bool = True
    asked: dict[str, float] = attrs.Factory(dict)
    microseconds: float | None = None  # that a call may take at most
    flops: float = 0
    bytes: float = 0
    scale: float = 1.0  # of the inputs
    model: Any = None  # an ONNX model that stands for lines and nodes
    integers: int = 0  # inputs are drawn below this
    out: tuple[int, ...] = ()  # the shape of an array that our result is written to


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def node(kind: str, *inputs: str, **attributes: Any) -> Node:
    return kind, inputs, attributes


def maps() -> Iterator[Case]:
    gelu = {COMPILED: 4.0, JAX: 1.5, ORT: 1.5}
    exact = {COMPILED: 1.8, ORT: 1.8, JAX: 2.8}
    plain = {COMPILED: 1.3, JAX: 1.5, ORT: 1.0}
    forms = [
        (
            "gelu-tanh",
            ["R.nn.gelu_tanh(x0)"],
            [node("Gelu", "x0", approximate="tanh")],
            lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
            lambda j, x: j.nn.gelu(x, approximate=True),
            gelu,
        ),
        (
            "gelu-erf",
            ["R.nn.gelu(x0)"],
            [node("Gelu", "x0")],
            lambda t, x: t.nn.functional.gelu(x),
            lambda j, x: j.nn.gelu(x, approximate=False),
            exact,
        ),
        (
            "exp",
            ["R.exp(x0)"],
            [node("Exp", "x0")],
            lambda t, x: t.exp(x),
            lambda j, x: j.numpy.exp(x),
            plain,
        ),
        (
            "silu",
            ["R.nn.silu(x0)"],
            [node("Sigmoid", "x0"), node("Mul", "x0", "t0")],
            lambda t, x: t.nn.functional.silu(x),
            lambda j, x: j.nn.silu(x),
            plain,
        ),
    ]
    yield Case(
        "negative 10,000,000 (the memory bound)",
        ["R.negative(x0)"],
        [(10_000_000,)],
        [node("Neg", "x0")],
        torch=lambda t, x: -x,
        jax=lambda j, x: -x,
        bytes=8e7,
    )
    for name, lines, nodes, torch, jax, asked in forms:
        for n in (1000, 10_000_000):
            yield Case(
                f"{name} {n:,}",
                lines,
                [(n,)],
                nodes,
                torch=torch,
                jax=jax,
                compiled=True,
                bytes=8.0 * n,
                **_limits(n, asked),
            )
    chain = [node("Mul", "x0", "x1"), node("Add", "t0", "x2"), node("Relu", "t1")]
    for n, asked in (
        (1000, {}),
        (100_000, {COMPILED: 2.5, JAX: 2.5, ORT: 4.0}),
        (10_000_000, {COMPILED: 1.0, JAX: 1.0, ORT: 5.0}),
    ):
        yield Case(
            f"relu(x*a+b) {n:,}",
            ["x0 * x1", "t0 + x2", "R.nn.relu(t1)"],
            [(n,)] * 3,
            chain,
            torch=lambda t, x, a, b: t.relu(x * a + b),
            jax=lambda j, x, a, b: j.nn.relu(x * a + b),
            compiled=True,
            bytes=16.0 * n,
            **_limits(n, asked),
        )


def _limits(n: int, asked: dict[str, float]) -> dict[str, Any]:
    """What is asked at a size: small calls are all alike."""
    if n > 1000:
        return {"asked": asked}
    return {"asked": {COMPILED: 10.0, ORT: 4.0}, "microseconds": 1.5}


def rows() -> Iterator[Case]:
    for total in (1000, 100_000, 10_000_000):
        yield from _rows_of(total, 384)
    for width in (4, 8, 15):
        yield from _rows_of(100_000, width)


def into_arrays() -> Iterator[Case]:
    """Large results in arrays of the caller, which start 16 bytes after a line of cache."""
    for width in (384, 300):
        shape, held = (26_000, width), {"g": floats(width), "b": floats(width, seed=1)}
        yield Case(
            f"layer_norm 26,000 x {width} into out=",
            ["R.nn.layer_norm(x0, g, b, axes=[-1])"],
            [shape],
            [node("LayerNormalization", "x0", "g", "b", epsilon=1e-5)],
            held,
            torch=lambda t, x, g, b: t.nn.functional.layer_norm(x, (x.shape[-1],), g, b),
            jax=_jax_layer_norm,
            bytes=8.0 * 26_000 * width,
            out=shape,
        )
    yield Case(
        "gelu-tanh 10,000,000 into out=",
        ["R.nn.gelu_tanh(x0)"],
        [(10_000_000,)],
        [node("Gelu", "x0", approximate="tanh")],
        torch=lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
        jax=lambda j, x: j.nn.gelu(x, approximate=True),
        bytes=8e7,
        out=(10_000_000,),
    )


def _rows_of(total: int, width: int) -> Iterator[Case]:
    count = max(1, total // width)
    shape, short = [(count, width)], width < 16
    at = f"{total:,} in rows of {width}"
    every = dict.fromkeys((ORT, TORCH, COMPILED, JAX), 1.0)
    common: dict[str, Any] = {"compiled": not short, "bytes": 8.0 * count * width}
    asked = {COMPILED: 1.7, ORT: 1.0}
    yield Case(
        f"softmax {at}",
        ["R.nn.softmax(x0)"],
        shape,
        [node("Softmax", "x0")],
        torch=lambda t, x: t.softmax(x, -1),
        jax=lambda j, x: j.nn.softmax(x),
        **common,
        **({"asked": every} if short else _limits(total, asked)),
    )
    factor = {100_000: 2.5, 10_000_000: 2.0}.get(total, 1.0)
    yield Case(
        f"layer_norm {at}",
        ["R.nn.layer_norm(x0, g, b, axes=[-1])"],
        shape,
        [node("LayerNormalization", "x0", "g", "b", epsilon=1e-5)],
        {"g": floats(width), "b": floats(width, seed=1)},
        torch=lambda t, x, g, b: t.nn.functional.layer_norm(x, (x.shape[-1],), g, b),
        jax=_jax_layer_norm,
        **common,
        **({"asked": every} if short else _limits(total, dict.fromkeys(every, factor))),
    )
    if short:
        yield Case(
            f"sum {at}",
            ["R.sum(x0, axis=[1])"],
            shape,
            [node("ReduceSum", "x0", "axes", keepdims=0)],
            {"axes": np.array([1])},
            torch=lambda t, x, _: x.sum(-1),
            jax=lambda j, x, _: x.sum(-1),
            **common,
            asked=every,
        )
    else:
        yield _root_mean_square(total, width, shape, common, every)


def _jax_layer_norm(j: Any, x: Any, g: Any, b: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * j.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * g + b


def _root_mean_square(
    total: int,
    width: int,
    shape: list[tuple[int, ...]],
    common: dict[str, Any],
    every: dict[str, float],
) -> Case:
    nodes = [node("Mul", "x0", "x0"), node("ReduceMean", "t0", "axes", keepdims=1)]
    nodes += [node("Add", "t1", "e"), node("Sqrt", "t2"), node("Div", "x0", "t3")]
    nodes += [node("Mul", "t4", "g")]
    constants = {"g": floats(width), "e": np.float32(1e-5), "axes": np.array([-1])}
    asked = dict.fromkeys(every, 1.2) if total == 10_000_000 else {}
    return Case(
        f"rms_norm {total:,} in rows of {width}",
        ["R.nn.rms_norm(x0, g, axes=[-1])"],
        shape,
        nodes,
        constants,
        torch=lambda t, x, g, e, _: t.nn.functional.rms_norm(x, (x.shape[-1],), g, 1e-5),
        jax=lambda j, x, g, e, _: x * j.lax.rsqrt((x * x).mean(-1, keepdims=True) + e) * g,
        **common,
        **_limits(total, asked),
    )


PAIRS = 50  # of a product and a relu: a hundred ops


def chains() -> Iterator[Case]:
    lines, nodes = list[str](), list[Node]()
    for k in range(PAIRS):
        last = f"t{2 * k - 1}" if k else "x0"
        lines += [f"R.matmul({last}, x1)", f"R.nn.relu(t{2 * k})"]
        nodes += [node("MatMul", last, "x1"), node("Relu", f"t{2 * k}")]

    def torch(t: Any, x: Any, w: Any) -> Any:
        for _ in range(PAIRS):
            x = t.relu(x @ w)
        return x

    def jax(j: Any, x: Any, w: Any) -> Any:
        for _ in range(PAIRS):
            x = j.nn.relu(x @ w)
        return x

    yield Case(
        "100 ops on 8 x 8",
        lines,
        [(8, 8)] * 2,
        nodes,
        torch=torch,
        jax=jax,
        compiled=True,
        asked={ORT: 10.0, JAX: 25.0, COMPILED: 35.0},
        microseconds=5.0,
        scale=0.3,
    )


def products() -> Iterator[Case]:
    asked = {BLAS: 1.1, TORCH: 1.1, ORT: 1.0}
    sizes = [(128, 384, 384), (128, 1536, 384), (128, 384, 1536), (512, 512, 512)]
    sizes += [(1024, 1024, 1024), (128, 1024, 4096), (16, 1536, 384)]
    for m, n, k in sizes:
        yield _product(m, n, k, asked if m >= 128 else {})
    yield _product(1, 4096, 4096, {TORCH: 1.2, JAX: 1.2, ORT: 1.2})
    m, n, k = 128, 1536, 384
    nodes = [node("MatMul", "x0", "w"), node("Add", "t0", "b"), node("Gelu", "t1")]
    yield Case(
        f"linear gelu {m}x{n}x{k}",
        ["R.matmul(x0, w)", "t0 + b", "R.nn.gelu(t1)"],
        [(m, k)],
        nodes,
        {"w": floats(k, n), "b": floats(n)},
        torch=lambda t, x, w, b: t.nn.functional.gelu(t.addmm(b, x, w)),
        jax=lambda j, x, w, b: j.nn.gelu(x @ w + b, approximate=False),
        compiled=True,
        asked={TORCH: 1.3, ORT: 1.05},
        flops=2.0 * m * n * k,
    )


def _product(m: int, n: int, k: int, asked: dict[str, float]) -> Case:
    return Case(
        f"matmul {m}x{n}x{k}",
        ["R.matmul(x0, w)"],
        [(m, k)],
        [node("MatMul", "x0", "w")],
        {"w": floats(k, n)},
        torch=lambda t, x, w: x @ w,
        jax=lambda j, x, w: x @ w,
        numpy=lambda n, x, w: x @ w,
        asked=asked,
        flops=2.0 * m * n * k,
        bytes=4.0 * (m * k + k * n + m * n),
    )


def convolutions() -> Iterator[Case]:
    asked = {TORCH: 1.4, ORT: 1.0}
    forms = [
        ("3x3 64", (1, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1, asked),
        ("depthwise 3x3", (1, 64, 56, 56), (64, 1, 3, 3), 1, 1, 64, {TORCH: 10.0, ORT: 1.0}),
        ("1x1 64", (1, 64, 56, 56), (64, 64, 1, 1), 1, 0, 1, {}),
        ("7x7 s2 stem", (1, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1, {}),
        ("3x3 s2 128", (1, 64, 56, 56), (128, 64, 3, 3), 2, 1, 1, {}),
        ("3x3 256 14x14", (1, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1, {}),
        ("3x3 512 7x7", (1, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1, {}),
    ]
    for name, shape, kernel, stride, pad, groups, ratios in forms:
        weights = {"w": floats(*kernel), "b": floats(1, kernel[0], 1, 1)}
        conv = f"R.nn.conv2d(x0, w, strides={stride}, padding={pad}, groups={groups})"
        nodes = [
            node("Conv", "x0", "w", strides=[stride] * 2, pads=[pad] * 4, group=groups),
            node("Add", "t0", "b"),
            node("Relu", "t1"),
        ]
        size = (shape[2] + 2 * pad - kernel[2]) // stride + 1

        def torch(
            t: Any, x: Any, w: Any, b: Any, stride: int = stride, pad: int = pad, g: int = groups
        ) -> Any:
            return t.relu(t.conv2d(x, w, b.reshape(-1), stride, pad, 1, g))

        yield Case(
            f"conv {name}",
            [conv, "t0 + b", "R.nn.relu(t1)"],
            [shape],
            nodes,
            weights,
            torch=torch,
            asked=ratios,
            flops=2.0 * float(np.prod(kernel)) * size * size,
        )
    yield _transposed((1, 64, 28, 28), (64, 64, 4, 4), 2, 1)


def _transposed(shape: tuple[int, ...], kernel: tuple[int, ...], stride: int, pad: int) -> Case:
    nodes = [node("ConvTranspose", "x0", "w", strides=[stride] * 2, pads=[pad] * 4)]
    return Case(
        "transposed conv 4x4 s2 64",
        [f"R.nn.conv2d_transpose(x0, w, strides={stride}, padding={pad})"],
        [shape],
        nodes,
        {"w": floats(*kernel)},
        torch=lambda t, x, w: t.conv_transpose2d(x, w, None, stride, pad),
        flops=2.0 * float(np.prod(kernel)) * shape[2] * shape[3],
    )


def attentions() -> Iterator[Case]:
    for s in (128, 512):
        for d in (32, 64):
            lines = ["R.permute_dims(x1, axes=[0, 2, 1])", "R.matmul(x0, t0)", "t1 * c"]
            lines += ["R.nn.softmax(t2)", "R.matmul(t3, x2)"]
            nodes = [node("Transpose", "x1", perm=[0, 2, 1]), node("MatMul", "x0", "t0")]
            nodes += [node("Mul", "t1", "c"), node("Softmax", "t2"), node("MatMul", "t3", "x2")]
            yield Case(
                f"attention 12 heads S{s} D{d}",
                lines,
                [(12, s, d)] * 3,
                nodes,
                {"c": np.float32(d**-0.5)},
                torch=lambda t, q, k, v, c: t.nn.functional.scaled_dot_product_attention(
                    q[None], k[None], v[None]
                )[0],
                jax=lambda j, q, k, v, c: j.nn.softmax(q @ k.swapaxes(1, 2) * c) @ v,
                asked={TORCH: 1.15, ORT: 1.0},
                flops=48.0 * s * s * d,
            )


def encoders() -> Iterator[Case]:
    weights = minilm_model.weights()
    model = minilm_model.onnx_model(weights)
    for batch, seq in ((1, 16), (1, 128), (8, 64)):
        yield Case(
            f"MiniLM ({batch}, {seq})",
            [],
            [(batch, seq)] * 2,
            model=model,
            constants=weights,
            torch=minilm_model.by_torch,
            compiled=True,
            eager=False,
            asked={COMPILED: 1.3, ORT: 1.2},
            flops=batch * seq * 6 * (24.0 * 384 * 384 + 4.0 * seq * 384),
            integers=1000,
        )


def pools_and_moves() -> Iterator[Case]:
    yield Case(
        "max_pool 3x3 s2",
        ["R.nn.max_pool2d(x0, pool_size=3, strides=2, padding=1)"],
        [(1, 64, 112, 112)],
        [node("MaxPool", "x0", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)],
        torch=lambda t, x: t.max_pool2d(x, 3, 2, 1),
    )
    shape = [(1000, 1000)]
    yield Case(
        "transpose 1000x1000",
        ["R.permute_dims(x0)"],
        shape,
        [node("Transpose", "x0")],
        torch=lambda t, x: x.T.contiguous(),
        bytes=8e6,
    )
    yield Case(
        "concat 1000x1000 axis 1",
        ["R.concat((x0, x1), axis=1)"],
        shape * 2,
        [node("Concat", "x0", "x1", axis=1)],
        torch=lambda t, x, y: t.cat((x, y), 1),
        bytes=16e6,
    )


FAMILIES = (
    *(maps, rows, into_arrays, chains, products),
    *(convolutions, attentions, encoders, pools_and_moves),
)
