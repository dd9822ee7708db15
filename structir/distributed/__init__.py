"""Sharding: splits a function into shards that receive only their slices; runs them on Dask."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "plan": "structir.distributed.planning",
        "Plan": "structir.distributed.plan",
        "ClusterModel": "structir.distributed.cluster_model",
        "MeshPlan": "structir.distributed.mesh_plan",
        "MeshProgram": "structir.distributed.mesh_program",
        "SearchReport": "structir.distributed.search_report",
        "dtensor_placements": "structir.distributed.sharding_export",
        "partition_specs": "structir.distributed.sharding_export",
        "combined_placements": "structir.distributed.sharding_export",
        "search": "structir.distributed.cut_search",
        "Shard": "structir.distributed.plan",
        "shard": "structir.distributed.sharded",
        "Sharded": "structir.distributed.sharded",
        "measure_cost": "structir.distributed.measured_cost",
        "MeasuredCost": "structir.distributed.measured_cost",
    },
)
