"""Runs shards as Dask tasks, each of which receives only its blocks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from structir.distributed.assembly import (
    allocate_results,
    combine_partials,
    reduce_cells,
    slices,
    store_blocks,
)
from structir.distributed.plan import Plan, PlanTensor, Shard
from structir.distributed.worker import make_task, run_task
from structir.errors import MissingExtraError
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds
from structir.projections.restriction import widths

if TYPE_CHECKING:
    from structir.distributed.sharded import Sharded

np = lazy_module("numpy")
dask = lazy_module("dask")
dask_array = lazy_module("dask.array")
cluster = lazy_module("distributed")
rich_progress = lazy_module("rich.progress")

Value = Any


def dask_arrays(function: Sharded, args: Sequence[Value]) -> Value:
    """Returns the results as Dask arrays with one block per grid cell."""
    plan, tasks = _cells(function, args)
    firsts = plan.shards[:: plan.pieces]
    results = [_array(k, tensor, firsts, tasks) for k, tensor in enumerate(plan.results)]
    return function.result(plan.program, results, args)


def compute_results(function: Sharded, args: Sequence[Value], client: Any, progress: bool) -> Value:
    """Computes the results as NumPy arrays; a worker holds only its blocks of them."""
    plan, tasks = _cells(function, args, client)
    results = allocate_results(plan)
    completed = (
        _run_on_cluster(client, tasks) if client is not None else enumerate(dask.compute(*tasks))
    )
    if progress:
        completed = rich_progress.track(
            completed, f"{plan.name} in {len(plan.shards)} shards", len(tasks)
        )
    for cell, blocks in completed:
        store_blocks(plan, cell, blocks, results)
    return function.result(plan.program, results, args)


def _run_on_cluster(client: Any, tasks: Sequence[Value]) -> Iterator[tuple[int, Value]]:
    """Yields grid cells as the cluster completes them, and releases each future."""
    futures = client.compute(list(tasks))
    cells = {future.key: cell for cell, future in enumerate(futures)}
    completed = cluster.as_completed(futures)
    del futures
    for future in completed:
        yield cells[future.key], future.result()
        future.release()


def _cells(
    function: Sharded, args: Sequence[Value], client: Any = None
) -> tuple[Plan, list[Value]]:
    check_dask()
    plan = function.plan_for(args)
    shard_program = attrs.evolve(
        function.shard_program(plan), concurrent_tasks=concurrent_tasks(client)
    )
    program = dask.delayed(shard_program, pure=True)
    inputs = function.values(plan, args)
    run = dask.delayed(run_task)
    tasks = [
        run(program, make_task(shard), *[_block(inputs[n], b) for n, b in shard.inputs])
        for shard in plan.shards
    ]
    return plan, reduce_cells(plan, tasks, dask.delayed(combine_partials))


def concurrent_tasks(client: Any) -> int:
    """Returns the most tasks that run at once on one machine: the threads of its workers.

    Without a cluster, Dask has a thread for each core.
    """
    try:
        client = client or cluster.default_client()
    except ValueError:
        client = None
    if client is None or client.asynchronous:
        return os.cpu_count() or 1
    threads: Counter[str | None] = Counter()
    for address, count in client.nthreads().items():
        threads[urlsplit(address).hostname] += count
    return max(threads.values(), default=1)


def check_dask() -> None:
    """Raises MissingExtraError unless Dask is installed."""
    try:
        dask_array.Array, cluster.Client  # noqa: B018 - loads the lazy modules
    except ImportError as error:
        hint = "install the extra: pip install 'structir[distributed]'"
        message = f"execution on Dask requires the packages dask and distributed; {hint}"
        raise MissingExtraError(message) from error


def _block(value: Value, bounds: Bounds | None) -> Value:
    """Returns the block of an argument to send; chunked arrays are read by the worker."""
    if bounds is None:
        return value
    block = slices(bounds)
    if isinstance(value, np.ndarray):
        return np.asarray(value[block], order="C")
    return value[block] if dask.is_dask_collection(value) else dask.delayed(_read)(value, block)


def _read(value: Value, block: tuple[slice, ...]) -> Value:
    return np.asarray(value[block])


def _array(
    index: int, tensor: PlanTensor, shards: Sequence[Shard], outputs: Sequence[Value]
) -> Value:
    """Assembles one result from the blocks of the shards that compute a part of it."""
    blocks: dict[tuple[int, ...], Value] = {}
    for shard, cell in zip(shards, outputs, strict=True):
        bounds = shard.results[index]
        if bounds is not None:
            block = cell[sum(b is not None for b in shard.results[:index])]
            blocks[bounds[0]] = dask_array.from_delayed(block, widths(bounds), tensor.dtype)
    starts = [sorted({start[axis] for start in blocks}) for axis in range(len(tensor.shape))]
    return dask_array.block(_nested(blocks, starts, ())) if starts else blocks[()]


def _nested(
    blocks: dict[tuple[int, ...], Value], starts: list[list[int]], at: tuple[int, ...]
) -> Value:
    if len(at) == len(starts):
        return blocks[at]
    return [_nested(blocks, starts, (*at, start)) for start in starts[len(at)]]
