"""Index specs of ops, their access maps, and the regions that op calls read and write."""

from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(("LoopAccesses", "accesses"), "structir.projections.loop_accesses")
    | dict.fromkeys(("Program", "program_of"), "structir.projections.program")
    | dict.fromkeys(("Box", "Region", "region"), "structir.projections.boxes")
    | dict.fromkeys(("Projection", "of_result"), "structir.projections.maps")
    | dict.fromkeys(("neighbours", "sharing"), "structir.projections.cost")
    | dict.fromkeys(
        ("ExecutionCost", "execution_cost", "program_cost"), "structir.projections.execution_cost"
    )
    | {"kernel_projection": "structir.projections.kernels.kernel_spec"}
    | {"ScalarExpr": "structir.projections.scalar_expr"},
)
