"""Analyses of programs: StructInfo deduction and lattice, variables, purity, well-formedness."""

from structir.lazy import lazy_names

_LATTICE = "BaseCheckResult FAIL_L0 FAIL_L1 FAIL_L2 PASS base_check unify_to_lca"
_VARIABLES = (
    "all_vars bound_vars defined_symbolic_vars free_symbolic_vars free_vars symbolic_vars uses_of"
)

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(_LATTICE.split(), "structir.analysis.lattice")
    | dict.fromkeys(("erase_to_well_defined", "get_static_type"), "structir.analysis.erasure")
    | dict.fromkeys(_VARIABLES.split(), "structir.analysis.variables")
    | dict.fromkeys(("Analysis", "all_analyses", "analysis"), "structir.analysis.declaration")
    | dict.fromkeys(("is_pure", "is_pure_value"), "structir.analysis.purity")
    | dict.fromkeys(("check_well_formed", "well_formed"), "structir.analysis.well_formed")
    | {
        "binding_struct_infos": "structir.analysis.deduction",
        "derive_call_ret_struct_info": "structir.analysis.calls",
    },
)
