# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir import analysis as analysis
from structir import distributed as distributed
from structir import errors as errors
from structir import ir as ir
from structir import passes as passes
from structir import script as script
from structir import solver as solver
from structir.backend.archive import load as load
from structir.backend.compile import compile as compile
from structir.backend.executable import Executable as Executable
from structir.interpret import _Callable
from structir.ir.structural import structural_equal as structural_equal
from structir.ir.structural import structural_hash as structural_hash
from structir.ir.symbolic import SymVar as SymVar
from structir.printer.files.archive import save as save
from structir.printer.parser.parser import parse as parse
from structir.printer.parser.parser import parse_struct_info as parse_struct_info
from structir.solver.program.inference import infer as infer

__version__: str
interpret: _Callable
