"""Shards as tasks of Dask: one each, which receives exactly its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from structir.distributed.assembly import cells, combined, empty, fill, packed, slices
from structir.distributed.plan import Plan, PlanTensor, Shard
from structir.distributed.worker import run_task, task_of
from structir.errors import StructIRError
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds
from structir.projections.local import widths

if TYPE_CHECKING:
    from structir.distributed.sharded import Sharded

np = lazy_module("numpy")
dask = lazy_module("dask")
dask_array = lazy_module("dask.array")
cluster = lazy_module("distributed")
rich_progress = lazy_module("rich.progress")

Value = Any


def arrays(function: Sharded, args: Sequence[Value]) -> Value:
    """The results of a sharded function as Dask arrays, one block a cell of the grid."""
    plan, made = _cells(function, args)
    firsts = plan.shards[:: plan.pieces]
    results = [_array(k, tensor, firsts, made) for k, tensor in enumerate(plan.results)]
    return packed(plan, iter(results))


def computed(function: Sharded, args: Sequence[Value], client: Any, progress: bool) -> Value:
    """The results as NumPy arrays; no worker holds more of them than its own blocks."""
    plan, made = _cells(function, args)
    results = empty(plan)
    done = _by_cluster(client, made) if client is not None else enumerate(dask.compute(*made))
    if progress:
        done = rich_progress.track(done, f"{plan.name} in {len(plan.shards)} shards", len(made))
    for number, blocks in done:
        fill(plan, number, blocks, results)
    return packed(plan, iter(results))


def _by_cluster(client: Any, made: Sequence[Value]) -> Iterator[tuple[int, Value]]:
    """The cells in the order in which a cluster finishes them; each is let go when it is here."""
    futures = client.compute(list(made))
    numbers = {future.key: number for number, future in enumerate(futures)}
    arriving = cluster.as_completed(futures)
    del futures
    for future in arriving:
        yield numbers[future.key], future.result()
        future.release()


def _cells(function: Sharded, args: Sequence[Value]) -> tuple[Plan, list[Value]]:
    _needed()
    plan = function.plan(*args)
    recipe = dask.delayed(function.recipe(plan), pure=True)
    sent = function.values(plan, args)
    run = dask.delayed(run_task)
    tasks = [
        run(recipe, task_of(each), *[_block(sent[n], b) for n, b in each.inputs])
        for each in plan.shards
    ]
    return plan, cells(plan, tasks, dask.delayed(combined))


def _needed() -> None:
    try:
        dask_array.Array, cluster.Client  # noqa: B018 - this loads them
    except ImportError as error:
        hint = "install the extra: pip install 'structir[distributed]'"
        raise StructIRError(f"shards on Dask need dask and distributed; {hint}") from error


def _block(value: Value, bounds: Bounds | None) -> Value:
    """What is sent of an argument; an array that is read in pieces is read by the worker."""
    if bounds is None:
        return value
    at = slices(bounds)
    if isinstance(value, np.ndarray):
        return np.asarray(value[at], order="C")
    return value[at] if dask.is_dask_collection(value) else dask.delayed(_read)(value, at)


def _read(value: Value, at: tuple[slice, ...]) -> Value:
    return np.asarray(value[at])


def _array(
    number: int, tensor: PlanTensor, shards: Sequence[Shard], made: Sequence[Value]
) -> Value:
    """One result, put together from the blocks of the shards that make some of it."""
    found: dict[tuple[int, ...], Value] = {}
    for shard, cell in zip(shards, made, strict=True):
        bounds = shard.results[number]
        if bounds is not None:
            block = cell[sum(b is not None for b in shard.results[:number])]
            found[bounds[0]] = dask_array.from_delayed(block, widths(bounds), tensor.dtype)
    starts = [sorted({start[axis] for start in found}) for axis in range(len(tensor.shape))]
    return dask_array.block(_nested(found, starts, ())) if starts else found[()]


def _nested(
    found: dict[tuple[int, ...], Value], starts: list[list[int]], at: tuple[int, ...]
) -> Value:
    if len(at) == len(starts):
        return found[at]
    return [_nested(found, starts, (*at, start)) for start in starts[len(at)]]
