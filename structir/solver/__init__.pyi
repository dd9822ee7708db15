# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.solver.constraints.signature import read_signature as read_signature
from structir.solver.domains.reasons import Conflict as Conflict
from structir.solver.domains.reasons import Origin as Origin
from structir.solver.program.defaulting import close as close
from structir.solver.program.inference import infer as infer
from structir.solver.program.report import explain as explain
from structir.solver.solver import Solver as Solver
from structir.solver.solver import Value as Value
