# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.projections.boxes import Box as Box
from structir.projections.boxes import Region as Region
from structir.projections.boxes import region as region
from structir.projections.cost import neighbours as neighbours
from structir.projections.cost import sharing as sharing
from structir.projections.maps import Projection as Projection
from structir.projections.maps import of_result as of_result
from structir.projections.program import Program as Program
from structir.projections.program import program_of as program_of
from structir.projections.scalar_expr import ScalarExpr as ScalarExpr
