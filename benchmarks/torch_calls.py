"""Measures about 177 calls that users write in torch against torch eager, one thread.

    python benchmarks/torch_calls.py --only conv,softmax --below 1.0
    python benchmarks/torch_calls.py --gradients

Each call is exported with a dynamic leading axis, imported and compiled. Both sides are called in
turn in one process; the ratio is torch's CPU time divided by that of StructIR, medians of 7
rounds. The sizes are small and odd on purpose: 49 rows, 7 columns, heads of 24. The slowest calls
come first; `--below` lists only those whose ratio is smaller. `--gradients` measures the gradients
of the mean square of each result by its floating-point operands. It requires torch.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from processor import processor

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import structir  # noqa: E402
from structir.errors import DiagnosticError  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

ROUNDS, BURST = 7, 0.004  # seconds of one sample
Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def floats(shapes: str, dtype: str = "float32") -> Callable[[Any], tuple[Any, ...]]:
    """Returns a maker of normal tensors of shapes such as `8x3 3`."""
    sizes = [[int(n) for n in shape.split("x")] for shape in shapes.split()]
    return lambda torch: tuple([torch.randn(*s).to(getattr(torch, dtype)) for s in sizes])


def integers(shapes: str, high: int, dtype: str = "int64") -> Callable[[Any], tuple[Any, ...]]:
    """Returns a maker of tensors of integers from 1 to below `high`."""
    sizes = [[int(n) for n in shape.split("x")] for shape in shapes.split()]
    return lambda torch: tuple(
        [torch.randint(1, high, s, dtype=getattr(torch, dtype)) for s in sizes]
    )


def also(*makers: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a maker of the tensors of several makers."""
    return lambda torch: sum([make(torch) for make in makers], ())


BIG, ROWS = floats("500x1000"), floats("2000x300")
PAIR = floats("500x500 500x500")
INDEX = integers("5000", 1000)
WIDE = integers("500x1000 500x1000", 100)

# An expression over x, y, z; and the makers of its operands. `F` is torch.nn.functional.
CALLS: dict[str, Any] = {
    # normalization and reductions
    "torch.softmax(x, 1)": floats("32x100x65"),
    "torch.softmax(x, 0)": floats("1000x130"),
    "torch.softmax(x, -1)": floats("20000x7"),
    "F.log_softmax(x, -1)": floats("4096x10"),
    "F.layer_norm(x, (33,))": floats("2048x33"),
    "F.group_norm(x, 8)": floats("4x64x28x28"),
    "F.instance_norm(x)": floats("4x30x29x29"),
    "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)": floats("512x200"),
    "F.normalize(x, dim=1)": floats("2000x64"),
    "x.sum(0)": ROWS,
    "x.sum(1)": floats("64x100x70"),
    "x.sum(-1)": floats("50000x5"),
    "x.sum()": floats("1000x1001"),
    "(x.mean((0, 2)), x.var((0, 2)))": floats("16x40x500"),
    "x.std(0)": floats("1000x100"),
    "x.norm(dim=-1)": floats("2000x128"),
    "x.logsumexp(-1)": floats("2000x50"),
    "x.amax(0)": ROWS,
    "x.max(-1)": ROWS,
    "x.argmax(0)": ROWS,
    "x.argmax(-1)": ROWS,
    "(x > 0).sum(-1)": BIG,
    "((x > 0).any(-1), (x > -5).all(0))": BIG,
    "torch.linalg.vector_norm(x, 1, -1)": BIG,
    "torch.linalg.vector_norm(x, math.inf, -1)": BIG,
    "F.batch_norm(x, y, y.abs() + 1)": floats("4x30x29x29 30"),
    "F.rms_norm(x, (200,))": floats("512x200"),
    # scans and sorts
    "x.cumsum(-1)": BIG,
    "x.cumsum(0)": BIG,
    "x.cumprod(-1)": floats("500x300"),
    "x.cummax(-1)": floats("500x300"),
    "x.diff(dim=-1)": BIG,
    "x.logcumsumexp(-1)": floats("500x300"),
    "x.sort(-1)[0]": floats("100x1000"),
    "x.sort(0)[0]": floats("1000x100"),
    "x.argsort(-1)": floats("100x1000"),
    "x.topk(5)[0]": floats("200x1000"),
    "x.topk(50)": floats("200x1000"),
    "x.median(-1)[0]": floats("200x501"),
    "x.kthvalue(10)[0]": floats("200x501"),
    "torch.searchsorted(x.sort()[0], y)": floats("1000 20000"),
    "torch.bucketize(x, y.sort()[0])": floats("500x100 31"),
    "x.unique()": integers("5000", 1000),
    "x.bincount(minlength=1000)": INDEX,
    "x.histc(50, -4.0, 4.0)": floats("50000"),
    # indices
    "F.embedding(y, x)": also(floats("1000x300"), INDEX),
    "x.index_select(1, y)": also(floats("50x1000"), INDEX),
    "x.gather(1, y)": also(floats("500x300"), integers("500x300", 300)),
    "x.scatter_add(1, z, y)": also(floats("500x300 500x300"), integers("500x300", 300)),
    "x.index_add(0, z, y)": also(floats("1000x64 5000x64"), INDEX),
    "F.one_hot(x, 1000)": INDEX,
    "F.cross_entropy(x, y)": also(floats("500x1000"), integers("500", 1000)),
    "F.embedding_bag(y, x, mode='mean')": also(floats("1000x64"), integers("500x10", 1000)),
    "x[y]": also(floats("1000x64"), INDEX),
    "x[:, y]": also(floats("300x500"), integers("99", 500)),
    "x[torch.arange(x.shape[0]), y]": also(floats("500x1000"), integers("500", 1000)),
    "x.take_along_dim(y, 0)": also(floats("500x300"), integers("500x300", 500)),
    "F.mse_loss(x, y)": floats("500x500 500x500"),
    "F.smooth_l1_loss(x, y)": floats("500x500 500x500"),
    "F.kl_div(x, y.abs(), reduction='batchmean')": floats("500x100 500x100"),
    "F.triplet_margin_loss(x, y, z)": floats("500x64 500x64 500x64"),
    "F.cosine_similarity(x, y)": floats("500x64 500x64"),
    # elementwise
    "torch.where(x > 0, x, y)": floats("500x1000 500x1000"),
    "x.masked_fill(x > 1, 0.0)": BIG,
    "x.clamp(-1, 1)": BIG,
    "F.gelu(x)": BIG,
    "F.silu(x)": BIG,
    "F.mish(x)": BIG,
    "torch.sin(x) + torch.cos(x)": BIG,
    "torch.tan(x)": PAIR,
    "torch.atan2(x, y)": PAIR,
    "x.abs().pow(2.5)": PAIR,
    "x.abs().pow(y)": PAIR,
    "torch.log1p(x.abs()) + torch.expm1(x)": PAIR,
    "torch.erfinv(x.clamp(-0.9, 0.9))": PAIR,
    "torch.lgamma(x.abs() + 1)": PAIR,
    "torch.div(x, y + 3, rounding_mode='floor')": PAIR,
    "torch.remainder(x, y + 3)": PAIR,
    "torch.div(x, y, rounding_mode='floor')": WIDE,
    "x % y": WIDE,
    "(x & y) ^ (x >> 3)": WIDE,
    "torch.exp(x)": floats("500x500", "float64"),
    "torch.tanh(x)": floats("500x500", "float64"),
    "x * y + x": floats("500x500 500x500", "float16"),
    "(x * 100).to(torch.int32)": BIG,
    "x.to(torch.float32) / 255": integers("500x1000", 255, "uint8"),
    "F.glu(x)": floats("500x600"),
    "F.binary_cross_entropy_with_logits(x, y.abs())": floats("500x200 500x200"),
    # copies
    "x.permute(0, 2, 1).contiguous()": floats("16x200x300"),
    "x.permute(2, 1, 0).contiguous()": floats("60x70x80"),
    "x.permute(0, 2, 3, 1).contiguous()": floats("4x64x56x56"),
    "x.t().contiguous()": floats("700x701", "float64"),
    "F.pixel_shuffle(x, 2)": floats("2x64x40x40"),
    "torch.cat((x, y), 1)": floats("500x300 500x301"),
    "torch.stack((x, y), -1)": floats("500x300 500x300"),
    "torch.cat(x.chunk(2, -1)[::-1], -1)": floats("500x300"),
    "x.flip(-1)": BIG,
    "x.roll(7, -1)": BIG,
    "x.tril()": floats("20x200x200"),
    "F.pad(x, (1, 2, 3, 4))": floats("4x16x60x60"),
    "F.pad(x, (1, 2, 3, 4), mode='reflect')": floats("4x16x60x60"),
    "x.repeat(2, 3)": floats("300x100"),
    "x.repeat_interleave(3, 0)": floats("300x100"),
    "x[:, ::2] * 2": BIG,
    "F.unfold(x, 3)": floats("4x16x30x30"),
    "x.unfold(-1, 5, 1).mean(-1)": floats("100x1000"),
    "F.interpolate(x, scale_factor=2)": floats("2x32x40x40"),
    "F.interpolate(x, size=(77, 75), mode='bilinear')": floats("2x32x40x40"),
    "F.interpolate(x, size=(77, 75), mode='bicubic')": floats("2x8x40x40"),
    "F.interpolate(x, size=(19, 21), mode='area')": floats("2x32x40x40"),
    "F.fold(x, (30, 30), 3)": floats("4x144x784"),
    "F.pad(x, (3, 4), mode='replicate')": floats("16x30x200"),
    "F.pad(x, (3, 4), mode='circular')": floats("16x30x200"),
    "x.to(torch.float32).mean((2, 3))": integers("4x3x224x224", 255, "uint8"),
    "F.grid_sample(x, y.tanh(), align_corners=False)": floats("2x8x40x40 2x30x30x2"),
    # pools
    "F.max_pool2d(x, 3, 2, 1)": floats("4x48x56x56"),
    "F.max_pool2d(x, 2)": floats("4x48x56x56"),
    "F.avg_pool2d(x, 3, 1, 1)": floats("4x48x56x56"),
    "F.avg_pool2d(x, 2)": floats("4x48x56x56"),
    "F.adaptive_avg_pool2d(x, 7)": floats("4x48x56x56"),
    "F.adaptive_max_pool2d(x, 5)": floats("4x48x56x56"),
    "F.max_pool1d(x, 3, 2)": floats("8x64x300"),
    "F.avg_pool1d(x, 25, 1, 12)": floats("8x32x300"),
    "F.max_pool3d(x, 2)": floats("2x16x16x32x32"),
    # convolutions
    "F.conv1d(x, y, padding=1)": floats("4x64x200 64x64x3"),
    "F.conv1d(x, y, stride=2)": floats("8x1x4000 32x1x7"),
    "F.conv1d(x, y, padding=4, dilation=4)": floats("4x64x200 64x64x3"),
    "F.conv1d(x, y, padding=15, groups=96)": floats("4x96x200 96x1x31"),
    "F.conv2d(x, y, stride=2, padding=3)": floats("1x3x224x224 64x3x7x7"),
    "F.conv2d(x, y, stride=2, padding=1)": floats("2x32x56x56 64x32x3x3"),
    "F.conv2d(x, y, padding=2)": floats("2x24x28x28 40x24x5x5"),
    "F.conv2d(x, y)": floats("2x37x28x28 53x37x1x1"),
    "F.conv2d(x, y, stride=16)": floats("1x3x224x224 192x3x16x16"),
    "F.conv2d(x, y, padding=1, groups=4)": floats("2x64x28x28 64x16x3x3"),
    "F.conv2d(x, y, padding=1, groups=32)": floats("2x128x28x28 128x4x3x3"),
    "F.conv2d(x, y, padding=2, dilation=2)": floats("2x32x28x28 32x32x3x3"),
    "F.conv2d(x, y, padding=1, groups=96)": floats("2x96x28x28 96x1x3x3"),
    "F.conv2d(x, y, padding=1)": floats("2x64x56x56 1x64x3x3"),
    "F.conv3d(x, y, padding=1)": floats("1x8x16x28x28 16x8x3x3x3"),
    "F.conv_transpose2d(x, y, stride=2)": floats("1x64x28x28 64x32x2x2"),
    "F.conv_transpose2d(x, y, stride=2, padding=1)": floats("1x64x28x28 64x32x4x4"),
    "F.conv_transpose1d(x, y, stride=4, padding=2)": floats("2x32x200 32x16x8"),
    # products
    "x @ y": floats("5000x3x3 5000x3x3"),
    "(x @ y.unsqueeze(-1)).squeeze(-1)": floats("500x20x30 500x30"),
    "x.mv(y)": floats("1000x700 700"),
    "y @ x": floats("1000x700 1000"),
    "torch.outer(x, y)": floats("1000 900"),
    "x.dot(y)": floats("100000 100000"),
    "x.mm(y)": floats("5000x4 4x64"),
    "F.linear(x, y)": floats("5000x64 1x64"),
    "torch.mm(x, y)": floats("16x20000 20000x16"),
    "x.t() @ y": floats("300x200 300x210"),
    "x @ y.t()": floats("200x300 210x300"),
    "x.matmul(y)": floats("128x256 256x256", "bfloat16"),
    "torch.matmul(x, y)": floats("200x300 300x200", "float64"),
    "torch.einsum('bihd,bjhd->bhij', x, y)": floats("4x60x8x24 4x60x8x24"),
    "torch.einsum('abc,acd->bd', x, y)": floats("20x30x40 20x40x50"),
    "torch.einsum('bi,bj->bij', x, y)": floats("200x50 200x60"),
    "torch.cdist(x, y)": floats("200x64 300x64"),
    "(x[:, None] - y[None]).abs().sum(-1)": floats("200x20 300x20"),
    # attention
    "F.scaled_dot_product_attention(x, y, z)": floats("4x4x65x24 4x4x65x24 4x4x65x24"),
    "F.scaled_dot_product_attention(x, y, z, is_causal=True)": floats(
        "2x4x200x64 2x4x200x64 2x4x200x64"
    ),
    "packed(x, 3, 32)": floats("64x49x288"),
    "packed(x, 4, 16)": floats("4x65x192"),
    "packed(x, 4, 80)": floats("4x65x960"),
    "F.scaled_dot_product_attention(x, y, z, enable_gqa=True)": floats(
        "2x8x100x32 2x2x100x32 2x2x100x32"
    ),
    "F.scaled_dot_product_attention(x, y, z, (x @ y.mT) > 0)": floats(
        "2x4x65x24 2x4x65x24 2x4x65x24"
    ),
    "(F.elu(x) + 1) @ ((F.elu(y) + 1).transpose(-1, -2) @ z)": floats(
        "2x4x200x32 2x4x200x32 2x4x200x32"
    ),
    "F.silu(x @ y[:, :300]) * (x @ y[:, 300:])": floats("100x200 200x600"),
    "torch.linalg.inv(x)": floats("200x4x4"),
    "torch.linalg.solve(x, y)": floats("200x4x4 200x4x3"),
    "torch.linalg.solve_triangular(x.tril() + 3, y, upper=False)": floats("50x20x20 50x20x7"),
    "torch.linalg.cholesky(x @ x.mT + 9 * torch.eye(12))": floats("100x12x12"),
    "torch.linalg.det(x)": floats("500x3x3"),
    "torch.fft.rfft(x).abs()": floats("50x1024"),
    "torch.fft.rfft(x).abs()  # 3 * 7 * 47": floats("50x987"),
    "torch.gru_cell(x, y, z, z[:, :64])": floats("32x64 32x64 192x64"),
}


def packed(torch: Any) -> Callable[[Any, int, int], Any]:
    """Returns attention whose queries, keys and values lie in one tensor, as in vision models."""

    def attention(x: Any, heads: int, width: int) -> Any:
        q, k, v = x.unflatten(-1, (3, heads, width)).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.softmax((q / math.sqrt(width)) @ k.transpose(-1, -2), -1)
        return (scores @ v).transpose(1, 2).flatten(2)

    return attention


def cases(torch: Any, words: list[str]) -> Iterator[Case]:
    """Yields the calls whose text contains one of some words, with their operands."""
    names = {"torch": torch, "math": math, "F": torch.nn.functional, "packed": packed(torch)}
    for text, make in CALLS.items():
        if not words or any(word in text for word in words):
            operands = make(torch)
            parameters = ", ".join("xyz"[: len(operands)])
            yield text, eval(f"lambda {parameters}: {text}", names), operands


def seconds(torch: Any, call: Callable[..., Any], operands: tuple[Any, ...]) -> tuple[float, float]:
    """Returns the CPU seconds of a call of StructIR and of torch, medians."""
    compiled = structir.compile(imported(torch, call, operands), num_threads=1)["main"]
    return interleaved(compiled, call, numpy_arrays(torch, operands), operands)


def gradient_seconds(
    torch: Any, call: Callable[..., Any], operands: tuple[Any, ...]
) -> tuple[float, float]:
    """Returns the CPU seconds of the gradients of a call, of StructIR and of torch, medians."""

    def loss(*tensors: Any) -> Any:
        result = call(*tensors)
        return (result[0] if isinstance(result, tuple) else result).square().mean()

    module = structir.passes.Gradient()(imported(torch, loss, operands))
    compiled = structir.compile(module, num_threads=1)["main_adjoint"]
    leaves = [x.clone().requires_grad_(x.dtype.is_floating_point) for x in operands]
    wanted = [x for x in leaves if x.requires_grad]

    def gradients(*tensors: Any) -> Any:
        with torch.enable_grad():
            return torch.autograd.grad(loss(*tensors), wanted)

    return interleaved(compiled, gradients, numpy_arrays(torch, operands), leaves)


def imported(torch: Any, call: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """Returns the module of a call, with a dynamic leading axis."""

    class Call(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *tensors: Any) -> Any:
            return call(*tensors)

    axes = tuple([{0: torch.export.Dim.AUTO} for _ in operands])
    exported = torch.export.export(Call(), operands, dynamic_shapes=(axes,))
    return from_exported_program(exported)


def interleaved(
    ours: Callable[..., Any], theirs: Callable[..., Any], arrays: Any, tensors: Any
) -> tuple[float, float]:
    """Returns the CPU seconds of a call of each side, called in turn, medians."""
    samples: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):
        for side, arguments, times in ((ours, arrays, samples[0]), (theirs, tensors, samples[1])):
            calls, start = 0, time.process_time()
            while (spent := time.process_time() - start) < BURST:
                side(*arguments)
                calls += 1
            times.append(spent / calls)
    return statistics.median(samples[0][1:]), statistics.median(samples[1][1:])


def numpy_arrays(torch: Any, tensors: tuple[Any, ...]) -> list[Any]:
    """Returns tensors as arrays; NumPy has no bfloat16 of its own."""
    return [
        x.float().numpy().astype("bfloat16") if x.dtype == torch.bfloat16 else x.numpy()
        for x in tensors
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="parts of the calls, separated by commas")
    parser.add_argument("--below", type=float, default=math.inf, help="ratios that are listed")
    parser.add_argument("--gradients", action="store_true", help="measure gradients")
    options = parser.parse_args()
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")
    measure = gradient_seconds if options.gradients else seconds
    rows, left = [], []
    words = [word for word in options.only.split(",") if word]
    with torch.no_grad():
        for text, call, operands in track(list(cases(torch, words)), "Calls"):
            try:
                ours, theirs = measure(torch, call, operands)
            except (DiagnosticError, RuntimeError) as error:  # the result is no float
                left.append(f"{text}: {str(error).splitlines()[0]}")
                continue
            shapes = " ".join("x".join(map(str, x.shape)) for x in operands)
            dtype = str(operands[0].dtype).removeprefix("torch.")
            rows.append((theirs / ours, text, f"{shapes} {dtype}", ours, theirs))
    table = Table("torch / StructIR", "call", "operands", "StructIR us", "torch us")
    for ratio, text, shapes, ours, theirs in sorted(rows):
        if ratio < options.below:
            cells = f"{ratio:.2f}", escape(text), shapes, f"{ours * 1e6:.1f}", f"{theirs * 1e6:.1f}"
            table.add_row(*cells)
    console = Console()
    for line in left:
        console.print(f"not measured: {line}", markup=False)
    console.print(f"{processor()}, one thread")
    console.print(table)
    ratios = [row[0] for row in rows]
    console.print(
        f"{len(ratios)} calls, geometric mean {statistics.geometric_mean(ratios):.2f}, "
        f"{sum(r >= 1 for r in ratios)} at least as fast as torch"
    )


if __name__ == "__main__":
    main()
