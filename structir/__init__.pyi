# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir import analysis as analysis
from structir import distributed as distributed
from structir import errors as errors
from structir import frontend as frontend
from structir import ir as ir
from structir import opdef as opdef
from structir import passes as passes
from structir import projections as projections
from structir import rewriting as rewriting
from structir import script as script
from structir import solver as solver
from structir.backend.archive import load as load
from structir.backend.compile import compile as compile
from structir.backend.executable import Executable as Executable
from structir.interpret import _Callable
from structir.ir.struct_info import struct_info as struct_info
from structir.ir.structural import structural_equal as structural_equal
from structir.ir.structural import structural_hash as structural_hash
from structir.ir.symbolic import SymVar as SymVar
from structir.opdef.define import op as op
from structir.opdef.opaque import opaque_op as opaque_op
from structir.passes import add_pass as add_pass
from structir.passes.base import function_pass as function_pass
from structir.passes.base import module_pass as module_pass
from structir.printer.files.archive import save as save
from structir.printer.parser.parser import parse as parse
from structir.printer.parser.parser import parse_struct_info as parse_struct_info
from structir.projections.scalar_expr import ScalarExpr as ScalarExpr
from structir.rewriting.rule import rewrite as rewrite
from structir.solver.program.inference import infer as infer

__version__: str
interpret: _Callable
