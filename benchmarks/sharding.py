"""Sharding on workers: planning time, two workers beside one, and an array of several times their
memory.

    python benchmarks/sharding.py [--scale 1.0]

Each worker is a process with one thread. The memory of a worker is the peak that the system tells.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
from distributed import Client, LocalCluster

import structir
from structir.distributed import plan, shard

ROWS = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    with R.dataflow():
        a = R.tanh(x)
        b = R.nn.gelu(a)
        c = R.sin(b)
        d = R.sum(R.exp(c), axis=[1])
        R.output(d)
    return d
"""
IMAGES = """
@R.function
def main(x: R.Tensor((1, 2, "h", "w"), "float32"), k: R.Tensor((2, 2, 3, 3), "float32")):
    with R.dataflow():
        a = R.nn.conv2d(x, k, padding=1)
        c = R.nn.softmax(a, axis=-1)
        R.output(c)
    return c
"""


@contextmanager
def workers(count: int, memory: int | None = None) -> Iterator[Client]:
    """A client of a cluster of processes."""
    limit = "auto" if memory is None else memory
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, memory_limit=limit, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def planning() -> float:
    """Seconds to plan 64 shards of a function of 1,000 ops."""
    lines = "\n".join([f"    v{k + 1} = R.add(v{k}, x)" for k in range(999)])
    text = f"""
@R.function
def main(x: R.Tensor((64, 64), "float32")):
    v0 = R.exp(x)
{lines}
    return v999
"""
    module = structir.parse(text)
    return median(lambda: plan(module, grid=(8, 8)))


def median(run: Callable[[], object]) -> float:
    """The median of three runs, in seconds."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def blocks(block_info: Any = None) -> np.ndarray:
    """A block of an input, made where it is needed."""
    place = block_info[None]
    shape = place["chunk-shape"]
    row = np.linspace(-1, 1, shape[-1], dtype="float32")
    return np.broadcast_to(row + sum(place["chunk-location"]) % 7, shape).copy()


def scaling(size: int) -> dict[str, float]:
    """Seconds of an elementwise-and-reduce program of size x size on one worker and on two."""
    pieces = 16
    x = dask.array.map_blocks(blocks, chunks=((size // pieces,) * pieces, (size,)), dtype="float32")
    sharded = shard(structir.parse(ROWS), grid=(pieces,))
    times: dict[str, float] = {}
    for count in (1, 2, 1, 2):
        with workers(count) as client:
            sharded.compute(x, client=client)  # compiles, and loads what it needs
            start = time.perf_counter()
            sharded.compute(x, client=client)
            took = time.perf_counter() - start
            key = f"{count} worker" + "s" * (count > 1)
            times[key] = min(took, times.get(key, took))
    return times


def beyond_memory(memory: int) -> dict[str, float]:
    """An array of four times what a worker may hold, through a convolution and a softmax."""
    width, pieces = 4096, 96
    height = -(-4 * memory // (2 * 4 * width) // pieces) * pieces
    x = dask.array.map_blocks(
        blocks, chunks=((1,), (2,), (height // pieces,) * pieces, (width,)), dtype="float32"
    )
    sharded = shard(structir.parse(IMAGES), grid=(1, 1, pieces, 1))
    with workers(2, memory) as client:
        start = time.perf_counter()
        result = sharded.on_dask(x, np.ones((2, 2, 3, 3), "float32") / 18)
        total = float(result.sum(dtype="float64").compute())
        took = time.perf_counter() - start
        peaks = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
        restarted = client.run(os.getpid)
    assert len(restarted) == 2
    assert abs(total / (2 * height) - 1) < 1e-3, "the rows of a softmax add up to one each"
    return {
        "array, bytes": x.nbytes,
        "limit of a worker, bytes": memory,
        "peak of a worker, bytes": max(peaks.values()),
        "seconds": took,
    }


def main() -> None:
    """Run it all, print it, and keep it in `results`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of sizes")
    scale = parser.parse_args().scale
    found = {
        "planning 64 shards of 1,000 ops, seconds": planning(),
        "rows": scaling(int(20_000 * scale) // 16 * 16),
        "beyond memory": beyond_memory(int((768 << 20) * scale)),
    }
    print(json.dumps(found, indent=2))
    target = Path(__file__).parent / "results" / "sharding.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
