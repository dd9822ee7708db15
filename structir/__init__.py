"""StructIR: a tensor IR and compiler with symbolic shapes. Each public name loads on first use."""

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
    "State": "structir.interpret.state",
    "Executable": "structir.backend.executable",
    "save": "structir.printer.files.archive",
    "load": "structir.backend.archive",
    "infer": "structir.solver.program.inference",
    "op": "structir.opdef.define",
    "opaque_op": "structir.opdef.opaque",
    "ScalarExpr": "structir.projections.scalar_expr",
    "struct_info": "structir.ir.struct_info",
    "rewrite": "structir.rewriting.rule",
    "function_pass": "structir.passes.base",
    "module_pass": "structir.passes.base",
    "add_pass": "structir.passes",
    "trace": "structir.transforms.trace",
    "jit": "structir.transforms.jit",
    "grad": "structir.transforms.gradients",
    "value_and_grad": "structir.transforms.gradients",
    "vjp": "structir.transforms.gradients",
    "jvp": "structir.transforms.gradients",
    "linearize": "structir.transforms.gradients",
    "jacfwd": "structir.transforms.gradients",
    "jacrev": "structir.transforms.gradients",
    "jacobian": "structir.transforms.gradients",
    "hessian": "structir.transforms.gradients",
    "checkpoint": "structir.transforms.gradients",
    "custom_jvp": "structir.transforms.custom",
    "custom_vjp": "structir.transforms.custom",
    "remat": "structir.transforms.gradients",
    "vmap": "structir.transforms.mapping",
    "TracedArray": "structir.tracing.array",
    "Array": "structir.tracing.array",
    "numpy": "structir.numpy:",
    "lax": "structir.lax:",
    "nn": "structir.nn:",
    "random": "structir.random:",
    "scipy": "structir.scipy:",
    "optim": "structir.optim:",
    "tree": "structir.tree:",
    "tree_util": "structir.tree_util:",
    "solver": "structir.solver:",
    "ir": "structir.ir:",
    "analysis": "structir.analysis:",
    "passes": "structir.passes:",
    "opdef": "structir.opdef:",
    "rewriting": "structir.rewriting:",
    "projections": "structir.projections:",
    "distributed": "structir.distributed:",
    "frontend": "structir.frontend:",
    "export": "structir.export:",
    "script": "structir.script:",
    "errors": "structir.errors:",
}

__getattr__, _names = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
