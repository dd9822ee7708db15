"""Sharding: splits a function into shards that receive only their slices; runs them on Dask."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "plan": "structir.distributed.planning",
        "Plan": "structir.distributed.plan",
        "Shard": "structir.distributed.plan",
        "shard": "structir.distributed.sharded",
        "Sharded": "structir.distributed.sharded",
        "measure_cost": "structir.distributed.measured_cost",
        "MeasuredCost": "structir.distributed.measured_cost",
    },
)
