"""Checks the CUDA backend on a GPU against the interpreter in float64, and measures it.

    python benchmarks/cuda.py [--write] [--small] [--eager] [--only NAME] [--json FILE]

Peers that are not installed are left out: PyTorch eager, and `torch.compile`, whose kernels are
Triton's. Bandwidth is reported beside that of a copy on the same GPU in the same run. With
`--write` the table goes into `docs/performance.md`, under the GPU's name; with `--small`, all
sizes are tiny, and times say nothing. `--eager` leaves out `torch.compile`, `--only` all cases
whose names do not contain a text. A row is printed as soon as it is measured; a case that fails is
a row with its error.
"""

# ruff: noqa: E402  what stands in the path must be settled first
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import attrs
import numpy as np

HERE = Path(__file__).resolve().parent
# Run as a script, this file would be found in the place of NVIDIA's package of the same name.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != HERE]
sys.path += [str(HERE.parent), str(HERE.parent / "examples")]

import structir
from benchmarks import cuda_peers
from minilm_program import WEIGHTS, minilm_text
from structir.errors import StructIRError
from structir.ir import IRModule
from structir.ir.dtype import numpy_dtype
from structir.targets.cuda.arrays import DeviceArray
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.gpu import Gpu
from structir.targets.cuda.target import device_of, driver

PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- cuda: begin -->", "<!-- cuda: end -->"
Ways = tuple[str | None, ...]
ROUNDS, SHORTEST = 20, 5
ROUND, MOST = 5e-3, 200  # seconds, and calls, of a round
RELATIVE = 1e-3  # of float64, for float32
HALF = 2e-2


@attrs.frozen
class Case:
    """A function of tensors, how PyTorch says it, and what it moves or computes."""

    name: str
    body: str
    shapes: tuple[tuple[int, ...], ...]
    peer: Callable[..., Any] | None
    dtype: str = "float32"
    bytes: int = 0
    operations: int = 0
    text: str = ""  # of the whole program, where it is more than the body
    positions: int = 0  # how many of the first arguments are numbers of words
    graph: bool = False  # whether the peer is a graph of PyTorch's
    known: frozenset[int] = frozenset()  # sizes that the program states
    own: bool = False  # whether our own kernels compute the products, without cuBLAS

    def module(self) -> IRModule:
        """The program, with a free size for each number in the shapes that it does not state."""
        if self.text:
            return structir.parse(self.text.replace("float32", self.dtype))
        sizes = ["".join([f"{self.size(n)}, " for n in shape]) for shape in self.shapes]
        params = [f"x{k}: R.Tensor(({s}), {self.dtype!r})" for k, s in enumerate(sizes)]
        text = f"@R.function\ndef main({', '.join(params)}):\n    return {self.body}\n"
        return structir.parse(text)

    def size(self, number: int) -> str:
        """A size in the program."""
        return str(number) if number in self.known else f"'n{number}'"

    def compiled(self) -> Callable[..., Any]:
        """The program's function on the GPU."""
        if self.own:
            return DeviceExecutable(self.module(), Gpu(driver))["main"]
        return structir.compile(self.module(), target="cuda")["main"]


def cases(torch: Any) -> Iterator[Case]:
    """Maps and rows of 1e8 elements, products, and attention."""
    functional = None if torch is None else torch.nn.functional
    rows = (260_416, 384)
    size = 4 * rows[0] * rows[1]

    def peer(name: str, *args: Any, **options: Any) -> Callable[..., Any] | None:
        if functional is None:
            return None
        return lambda x, *rest: getattr(functional, name)(x, *args, *rest, **options)

    yield Case("relu(x)", "R.nn.relu(x0)", (rows,), peer("relu"), bytes=2 * size)
    yield Case("gelu", "R.nn.gelu(x0)", (rows,), peer("gelu"), bytes=2 * size)
    yield Case("softmax", "R.nn.softmax(x0)", (rows,), peer("softmax", -1), bytes=2 * size)
    last = (rows[1],)
    yield Case(
        "layer_norm",
        "R.nn.layer_norm(x0, x1, x2, axes=-1)",
        (rows, last, last),
        peer("layer_norm", last),
        bytes=2 * size,
    )
    yield Case(
        "rms_norm",
        "R.nn.rms_norm(x0, x1, axes=-1)",
        (rows, last),
        peer("rms_norm", last),
        bytes=2 * size,
    )
    long = (1024, 97_656)
    yield Case(
        "softmax of long rows", "R.nn.softmax(x0)", (long,), peer("softmax", -1), bytes=2 * size
    )
    yield Case("sum", "R.sum(x0)", (rows,), torch and torch.sum, bytes=size)
    yield Case("transpose", "R.permute_dims(x0)", (rows,), torch and transposed, bytes=2 * size)
    for dtype in ("float32", "float16", "bfloat16"):
        for n in (1024, 4096):
            square = (n, n)
            yield Case(
                f"matmul {n} {dtype}",
                "R.matmul(x0, x1)",
                (square, square),
                torch and torch.matmul,
                dtype,
                operations=2 * n**3,
            )
    for dtype in ("float32", "float16"):
        yield Case(
            f"matmul 4096 {dtype}, our own kernel",
            "R.matmul(x0, x1)",
            ((4096, 4096), (4096, 4096)),
            torch and torch.matmul,
            dtype,
            operations=2 * 4096**3,
            own=True,
        )
    image, weight = (32, 64, 56, 56), (128, 64, 3, 3)
    for dtype in ("float32", "float16"):
        yield Case(
            f"conv2d 3 x 3, 64 to 128 channels {dtype}",
            "R.nn.conv2d(x0, x1, padding=1)",
            (image, weight),
            functional and (lambda x, w: functional.conv2d(x, w, padding=1)),
            dtype,
            operations=2 * 32 * 128 * 56 * 56 * 64 * 9,
            known=frozenset({64, 128, 3}),
        )
    heads = (8, 512, 12, 64)
    for known in (frozenset[int](), frozenset({64})):
        yield Case(
            f"attention 12 heads S512 D64 float16{', heads of known size' if known else ''}",
            "R.nn.attention(x0, x1, x2)",
            (heads, heads, heads),
            torch and partial(attended, functional),
            "float16",
            operations=4 * 8 * 12 * 512 * 512 * 64,
            known=known,
        )

    tall = (4096, 1024)
    yield Case(
        "linear + gelu float16",
        "R.nn.gelu(R.matmul(x0, x1) + x2)",
        (tall, (1024, 4096), (4096,)),
        None if functional is None else lambda x, w, b: functional.gelu(x @ w + b),
        "float16",
        operations=2 * 4096 * 1024 * 4096,
    )
    yield Case(
        "linear + gelu by tanh float16, against the product alone",
        "R.nn.gelu_tanh(R.matmul(x0, x1) + x2)",
        (tall, (1024, 4096), (4096,)),
        torch and (lambda x, w, b: x @ w),
        "float16",
        operations=2 * 4096 * 1024 * 4096,
    )
    yield Case(
        "the encoder at (32, 128) float16",
        "",
        ((32, 128), (32, 128), *WEIGHTS.values()),
        torch and partial(cuda_peers.encoder, torch),
        "float16",
        text=minilm_text().replace("-1e9", "-6e4"),
        positions=2,
    )
    yield Case(
        "100 kernels on 64 x 64, against a graph",
        "",
        ((64, 64),),
        torch and partial(one_after_another, functional),
        text=MANY,
        graph=True,
    )


MANY = "\n".join(
    [
        '@R.function\ndef main(x0: R.Tensor(("n", "n"), "float32")):',
        *[f"    x{k + 1} = R.nn.softmax(x{k}, axis={k % 2})" for k in range(100)],
        "    return x100\n",
    ]
)


def one_after_another(functional: Any, x: Any) -> Any:
    """A hundred softmaxes, along one axis and then along the other."""
    for k in range(100):
        x = functional.softmax(x, k % 2)
    return x


def transposed(x: Any) -> Any:
    """A transposed copy."""
    return x.t().contiguous()


def attended(functional: Any, query: Any, key: Any, value: Any) -> Any:
    """PyTorch's attention, whose heads stand before the places."""
    turned = [x.transpose(1, 2) for x in (query, key, value)]
    return functional.scaled_dot_product_attention(*turned).transpose(1, 2)


@attrs.frozen
class Timer:
    """The median time of a call by the GPU's own clock."""

    driver: Any

    def seconds(self, call: Callable[[], Any]) -> float:
        """What one call takes, over several rounds. In a round one call follows the other: the GPU
        waits for Python only where Python takes longer."""
        for _ in range(SHORTEST):
            call()
        count = max(min(int(ROUND / self.once(call, 1)), MOST), 1)
        return median([self.once(call, count) for _ in range(ROUNDS)])

    def once(self, call: Callable[[], Any], count: int) -> float:
        """What a call takes, of several that follow each other."""
        start, end = (self.driver.cuEventCreate(0)[1] for _ in range(2))
        self.driver.cuEventRecord(start, 0)
        for _ in range(count):
            call()
        self.driver.cuEventRecord(end, 0)
        self.driver.cuEventSynchronize(end)
        return float(self.driver.cuEventElapsedTime(start, end)[1] / 1e3 / count)


def copy_bandwidth(gpu: Any, timer: Timer, size: int = 1 << 30) -> float:
    """Bytes in a second that a copy on the GPU reads and writes."""
    source, target = gpu.allocate(size), gpu.allocate(size)
    copy = partial(gpu.driver.cuMemcpyDtoDAsync, target.address, source.address, size, 0)
    return 2 * size / timer.seconds(copy)


def agrees(case: Case, given: list[Any], found: Any) -> bool:
    """Whether a result is that of the interpreter in float64, on a part that is quick to make."""
    wide = attrs.evolve(case, dtype="float64").module()
    floats = [g if g.dtype.kind == "i" else g.astype("float64") for g in given]
    wanted = structir.interpret(wide, "main", *floats)
    near = RELATIVE if case.dtype == "float32" else HALF
    pairs = [(wanted, found)] if isinstance(wanted, np.ndarray) else zip(wanted, found, strict=True)
    return all(close(one, np.asarray(other), near) for one, other in pairs)


def close(wanted: Any, found: Any, near: float) -> bool:
    """Whether a result is near another one, as a share of the greatest that there is."""
    reach = float(np.abs(wanted).max(initial=1.0))
    return bool(np.allclose(found.astype("float64"), wanted, near, near * reach))


def drawn(case: Case, shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    """Arguments of some shapes."""
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 2, s) for s in shapes[: case.positions]]
    scale = 0.05 if case.text and case.positions else 1.0  # of a network's weights
    floats = [rng.standard_normal(s, "float32") * scale for s in shapes[case.positions :]]
    for mask in words[1:2]:
        mask[:, 0] = 1  # no sentence is empty
    return [*words, *[f.astype(numpy_dtype(case.dtype)) for f in floats]]


def small(case: Case, most: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of which a check is quick. Those of a whole network are mostly its own."""
    cut = case.shapes[: case.positions] if case.positions else case.shapes
    made = tuple([tuple([min(n, most) for n in shape]) for shape in cut])
    return made + case.shapes[len(cut) :]


def measured(case: Case, gpu: Any, timer: Timer, torch: Any, copy: float, ways: Ways) -> list[str]:
    """The cells of a row of the table."""
    run = case.compiled()
    part = drawn(case, small(case, 8 if case.positions else 96))
    right = agrees(case, part, run(*part))
    given = [as_array(gpu, a) for a in drawn(case, case.shapes)]
    seconds = timer.seconds(lambda: run(*given))
    cells = [case.name, f"{seconds * 1e6:.0f} us", rate(case, seconds, copy)]
    for way in ways:
        cells.append(beside(case, way, given, seconds, timer, torch))
    return [*cells, "yes" if right else "**no**"]


def row_of(case: Case, *rest: Any) -> list[str]:
    """A row of the table; of a case that fails, its error."""
    try:
        return measured(case, *rest)
    except Exception as error:  # of any library: the other cases are measured all the same
        return [case.name, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]


def many_shapes(gpu: Any, count: int = 20) -> str:
    """Whether one compilation does for many shapes."""
    case = Case("", "R.nn.softmax(R.matmul(R.nn.gelu(x0), x1))", ((1, 2), (2, 3)), None)
    executable = structir.compile(case.module(), target="cuda")
    kernels, right = executable.kernel_count, True
    for k in range(1, count + 1):
        given = drawn(case, ((3 * k, 7 * k), (7 * k, k)))
        right = right and agrees(case, given, executable["main"](*given))
    once = executable.compile_count == 1 and executable.kernel_count == kernels
    return f"{count} shapes with one compilation: {'yes' if right and once else '**no**'}"


def as_array(gpu: Any, array: Any) -> DeviceArray:
    """An array on the GPU."""
    memory = gpu.allocate(array.nbytes)
    gpu.copy_in(memory.address, array)
    gpu.synchronize()
    return DeviceArray(gpu, memory, array.shape, array.dtype)


def rate(case: Case, seconds: float, copy: float) -> str:
    """What is moved, as a share of what a copy moves; or what is computed."""
    if case.bytes:
        return f"{case.bytes / seconds / 1e9:.0f} GB/s, {case.bytes / seconds / copy:.0%} of a copy"
    return f"{case.operations / seconds / 1e12:.1f} TFLOP/s" if case.operations else ""


def beside(
    case: Case, way: str | None, given: list[Any], seconds: float, timer: Timer, torch: Any
) -> str:
    """How many times as long a peer takes."""
    if torch is None or case.peer is None:
        return ""
    tensors = [torch.from_dlpack(array) for array in given]
    if case.graph:
        if way == "compile":
            return ""
        again = cuda_peers.replayed(torch, case.peer, *tensors)
        return f"{timer.seconds(again) / seconds:.2f}"
    call = torch.compile(case.peer) if way == "compile" else case.peer
    return f"{timer.seconds(lambda: call(*tensors)) / seconds:.2f}"


def arguments_of_the_command() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("--write", "--small", "--eager"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--only", default="", help="a part of the names of the cases")
    parser.add_argument("--json", type=Path, help="a file for the table")
    return parser.parse_args()


def main() -> None:
    """Measure all cases, and print or write the table."""
    options = arguments_of_the_command()
    try:
        gpu = device_of(None)
    except StructIRError as error:
        raise SystemExit(f"nothing to measure: {error}") from None
    torch = __import__("torch") if find_spec("torch") else None
    driver = gpu.driver
    name = driver.cuDeviceGetName(64, 0)[1].decode().rstrip("\0")
    timer = Timer(driver)
    copy = copy_bandwidth(gpu, timer, 1 << (20 if options.small else 30))
    head = [
        f"Measured on {name}; a copy moves {copy / 1e9:.0f} GB/s. Over 1 is better.",
        "",
        "| case | StructIR | rate | PyTorch | torch.compile | right |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(head), flush=True)
    chosen = [case for case in cases(torch) if options.only in case.name]
    if options.small:
        chosen = [attrs.evolve(case, shapes=small(case, 8)) for case in chosen]
    ways: Ways = (None,) if options.eager else (None, "compile")
    cells, lines = [], []
    for case in chosen:
        cells.append(row_of(case, gpu, timer, torch, copy, ways))
        lines.append(f"| {' | '.join(cells[-1])} |")
        print(lines[-1], flush=True)
    last = many_shapes(gpu)
    print(f"\n{last}")
    table = "\n".join([*head, *lines, "", last])
    if options.json is not None:
        options.json.write_text(json.dumps({"gpu": name, "copy": copy, "rows": cells}, indent=1))
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(
            f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
