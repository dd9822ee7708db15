"""Measures handwritten products against `R.matmul`: every loop order, tiles, remainders and forms.

    python benchmarks/hand_tiling.py [--size 384] [--rounds 12]

Each row is a kernel of one thread; its figures are multiples of the processor time of `R.matmul` of
the same sizes, measured in turn in one process. All results are compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import attrs
import numpy as np

import structir
from structir.script import I, R, T  # noqa: F401  (names of the kernels)

ORDERS = ["".join(order) for order in permutations("ijk")]
TILES = ((32, 64, 32), (8, 8, 8), (48, 100, 7))
REMAINDERS = {"min": ("min({0}0 + {1}, {2})", ""), "if": ("{0}0 + {1}", "if {0} < {2}:")}


@attrs.frozen
class Row:
    """Kernels with the six loop orders."""

    name: str
    kernels: dict[str, str]
    dtype: str = "float32"
    is_transposed: bool = False
    has_bias: bool = False


def rows(size: int) -> Iterator[Row]:
    """Yields the rows of the table."""
    for extent in (str(size), "n"):
        kind = "symbolic" if extent == "n" else "fixed"
        for tiles in TILES:
            for remainder in REMAINDERS:
                name = f"{kind}, {' x '.join(map(str, tiles))}, {remainder}"
                yield Row(name, {order: tiled(order, extent, tiles, remainder) for order in ORDERS})
        yield Row(f"{kind}, no tiles", {order: tiled(order, extent) for order in ORDERS})
    tiles, extent = TILES[0], "n"
    doubles = {order: tiled(order, extent, tiles, dtype="float64") for order in ORDERS}
    yield Row("symbolic, float64", doubles, "float64")
    turned = {order: tiled(order, extent, tiles, right="b[j, k]") for order in ORDERS}
    yield Row("symbolic, right operand transposed", turned, is_transposed=True)
    layers = {order: layer(order, extent, 32) for order in ("ij", "ji")}
    yield Row("symbolic, scalar total, bias, relu", layers, has_bias=True)


def head(extent: str, dtype: str = "float32", bias: bool = False) -> str:
    """Returns the signature of a kernel."""
    size = f'"{extent}"' if extent == "n" else extent
    params = [f"{name}: R.Tensor(({size}, {size}), '{dtype}')" for name in "abc"]
    if bias:
        params.insert(2, f"d: R.Tensor(({size},), '{dtype}')")
    return f"@I.kernel\ndef product({', '.join(params)}):\n"


def tiled(
    order: str,
    extent: str,
    tiles: tuple[int, ...] = (),
    remainder: str = "min",
    dtype: str = "float32",
    right: str = "b[k, j]",
) -> str:
    """Returns a product with loops over blocks, if any, around loops in blocks."""
    stop, test = REMAINDERS[remainder]
    sizes = dict(zip("ijk", tiles, strict=False))
    lines = [f"for {a}0 in range(0, {extent}, {sizes[a]}):" for a in order if tiles]
    for axis in order:
        end = stop.format(axis, sizes[axis], extent) if tiles else extent
        lines.append(
            f"for {axis} in range({axis}0, {end}):" if tiles else f"for {axis} in range({end}):"
        )
        lines += [test.format(axis, "", extent)] if tiles and test else []
    lines.append(f"c[i, j] = c[i, j] + a[i, k] * {right}")
    return head(extent, dtype) + nested(lines)


def layer(order: str, extent: str, tile: int) -> str:
    """Returns a product with a total in a scalar, a bias and a relu."""
    lines = [f"for {axis}0 in range(0, {extent}, {tile}):" for axis in order]
    lines += [f"for {axis} in range({axis}0, min({axis}0 + {tile}, {extent})):" for axis in order]
    deep = "    " * (len(lines) + 1)
    body = ["t = T.float32(0.0)", f"for k in range({extent}):", "    t = t + a[i, k] * b[k, j]"]
    body.append("c[i, j] = max(t + d[j], 0.0)")
    return head(extent, bias=True) + nested(lines) + "".join(f"{deep}{line}\n" for line in body)


def nested(lines: list[str]) -> str:
    """Returns lines, each in the block of the one before."""
    return "".join("    " * (depth + 1) + line + "\n" for depth, line in enumerate(lines))


def matmul(size: int, row: Row) -> Any:
    """Returns the compiled op of a row."""
    right = "R.permute_dims(b)" if row.is_transposed else "b"
    body = f"R.matmul(a, {right})"
    params = [f"{name}: R.Tensor(({size}, {size}), '{row.dtype}')" for name in "ab"]
    if row.has_bias:
        params.append(f"d: R.Tensor(({size},), '{row.dtype}')")
        body = f"R.nn.relu(R.add({body}, d))"
    source = f"@R.function\ndef main({', '.join(params)}):\n    y = {body}\n    return y\n"
    return structir.compile(structir.parse(source), num_threads=1)["main"]


def seconds(call: Callable[[], object]) -> float:
    """Returns the processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def measured(row: Row, size: int, rounds: int) -> dict[str, float]:
    """Returns the times of the kernels of a row, relative to the op."""
    rng = np.random.default_rng(0)
    shapes = [(size, size)] * 2 + [(size,)] * row.has_bias
    arrays = [rng.standard_normal(shape).astype(row.dtype) for shape in shapes]
    op = matmul(size, row)
    expected, out = op(*arrays), np.zeros((size, size), row.dtype)
    calls: dict[str, Callable[[], object]] = {"": lambda: op(*arrays)}
    for order, source in row.kernels.items():
        kernel = structir.compile(structir.parse(source))["product"]
        calls[order] = lambda kernel=kernel: kernel(*arrays, out)
        calls[order]()
        np.testing.assert_allclose(out, expected, 1e-3, 1e-3)
    times = {name: min(seconds(call) for _ in range(3)) for name, call in calls.items()}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name] = min(times[name], seconds(call))
    return {order: times[order] / times[""] for order in row.kernels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    for row in rows(options.size):
        ratios = measured(row, options.size, options.rounds)
        print(f"{row.name:38}", *[f"{order} {ratio:5.2f}" for order, ratio in ratios.items()])


if __name__ == "__main__":
    main()
