# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.analysis.calls import derive_call_ret_struct_info as derive_call_ret_struct_info
from structir.analysis.deduction import binding_struct_infos as binding_struct_infos
from structir.analysis.lattice import FAIL_L0 as FAIL_L0
from structir.analysis.lattice import FAIL_L1 as FAIL_L1
from structir.analysis.lattice import FAIL_L2 as FAIL_L2
from structir.analysis.lattice import PASS as PASS
from structir.analysis.lattice import BaseCheckResult as BaseCheckResult
from structir.analysis.lattice import base_check as base_check
from structir.analysis.lattice import erase_to_well_defined as erase_to_well_defined
from structir.analysis.lattice import get_static_type as get_static_type
from structir.analysis.lattice import unify_to_lca as unify_to_lca
from structir.analysis.purity import is_pure as is_pure
from structir.analysis.purity import is_pure_value as is_pure_value
from structir.analysis.variables import all_vars as all_vars
from structir.analysis.variables import bound_vars as bound_vars
from structir.analysis.variables import defined_symbolic_vars as defined_symbolic_vars
from structir.analysis.variables import free_symbolic_vars as free_symbolic_vars
from structir.analysis.variables import free_vars as free_vars
from structir.analysis.variables import symbolic_vars as symbolic_vars
from structir.analysis.variables import uses_of as uses_of
from structir.analysis.well_formed import check_well_formed as check_well_formed
