"""StructIR: a tensor IR and compiler with first-class StructInfo. The public names, each loaded on
first use."""

from structir.lazy import lazy_names

__version__ = "0.1.0"

_HOMES = {
    "parse": "structir.printer.parser.parser",
    "parse_struct_info": "structir.printer.parser.parser",
    "structural_equal": "structir.ir.structural",
    "structural_hash": "structir.ir.structural",
    "SymVar": "structir.ir.symbolic",
    "interpret": "structir.interpret:",
    "compile": "structir.backend.compile",
    "Executable": "structir.backend.executable",
    "save": "structir.printer.files.archive",
    "load": "structir.backend.archive",
    "infer": "structir.solver.program.inference",
    "solver": "structir.solver:",
    "ir": "structir.ir:",
    "analysis": "structir.analysis:",
    "passes": "structir.passes:",
    "distributed": "structir.distributed:",
    "script": "structir.script:",
    "errors": "structir.errors:",
}

__getattr__, _names = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
