# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.solver.closing import close as close
from structir.solver.inference import infer as infer
from structir.solver.reasons import Conflict as Conflict
from structir.solver.reasons import Origin as Origin
from structir.solver.report import explain as explain
from structir.solver.signature import read_signature as read_signature
from structir.solver.solver import Solver as Solver
from structir.solver.solver import Value as Value
