"""Prints a module in the spelling of TVM 0.27, for programs of the features that both have."""

from __future__ import annotations

import re
from typing import Any

from structir.analysis.purity import is_pure_call
from structir.analysis.vdevices import vdevices_in
from structir.errors import Diagnostic, DiagnosticError, Span
from structir.ir.dims import Sym, as_sym
from structir.ir.expr import (
    Call,
    Constant,
    Expr,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    Tuple,
    Var,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
)
from structir.ir.vdevice import SCOPE, Entry, VDevice
from structir.printer.constants import values_text
from structir.printer.expr_printer import literal
from structir.printer.program_printer import INDENT, ProgramPrinter, Steps, attribute_lines
from structir.printer.syntax import GLOBAL_INFOS, INFO_FORMS
from structir.solver.program.refine_policy import REFINE

HEADER = "from tvm.script import ir as I, relax as R, tirx as T"
MAX_ELEMENTS = 1 << 16  # of a constant in the text
LACKING = frozenset(  # ops that TVM 0.27 lacks
    {
        *("cummax", "cummin", "grad.adjoint", "grouped_matmul", "linalg.cholesky"),
        *("linear_recurrence", "roll", "scan"),
        *("linalg.slogdet", "linalg.solve", "linalg.solve_triangular", "memory.call_into"),
        *("memory.fill", "nn.class_indices", "true_positions"),
    }
)
PLAIN_INFOS = frozenset({form.node for form in INFO_FORMS})
OF_SHAPES = frozenset({"shape_to_tensor"})  # ops that take a shape value, not a tuple of sizes
REQUIRED = {"nn.batch_norm": ("axis",)}  # attributes that have no default in TVM
CODE = "E0137"


def tvm_text(module: IRModule) -> str:
    """Returns the source of a module for TVM; raises DiagnosticError for what TVM lacks."""
    lines = [HEADER, "", "", "@I.ir_module", f"class {module.name}:"]
    lines += attribute_lines(_with_devices(module))
    for name, member in module.functions.items():
        if isinstance(member, Kernel):
            hint = f"remove the kernel `{name}`, and print the module before `passes.Lower`"
            raise _lacks("kernels", member.span, hint)
        printer = TvmPrinter(frozenset({module.name}), module.name)
        assert isinstance(member, Function)
        printer.run(printer.function(member, name, INDENT))
        lines += [*printer.finished(), ""]
    return "\n".join(lines)


def _with_devices(module: IRModule) -> IRModule:
    """Returns the module with a list of its vdevices, which TVM requires."""
    vdevices = vdevices_in(module)
    if not vdevices or GLOBAL_INFOS in module.attrs:
        return module
    entries: list[Entry] = []
    for kind in dict.fromkeys(vdevice.target for vdevice in vdevices):
        scopes = {v.index: v.memory_scope for v in vdevices if v.target == kind}
        entries += [[kind, k, scopes.get(k, SCOPE)] for k in range(max(scopes) + 1)]
    return replace(module, attrs={**module.attrs, GLOBAL_INFOS: entries})


def _lacks(feature: str, span: Span | None, hint: str) -> DiagnosticError:
    message = f"print: TVM has no {feature}"
    return DiagnosticError(Diagnostic(message, span, hint=hint, code=CODE))


class TvmPrinter(ProgramPrinter):
    """Prints functions in the spelling of TVM."""

    def __init__(self, reserved: frozenset[str], module: str | None) -> None:
        super().__init__(reserved, module)
        self.span: Span | None = None  # of the binding that is printed
        self.dims_of_params: dict[Var, Sym] = {}
        self.takes_shape = False  # whether the printed call takes `R.shape`, not a tuple of sizes

    def form(self, form: Any, node: Any) -> str:
        if isinstance(node, ObjectStructInfo):
            return "R.Any"
        if isinstance(node, StructInfo) and type(node) not in PLAIN_INFOS:
            hint = "print the program in the dialect `structir`"
            raise _lacks(f"StructInfo subclass {type(node).__name__}", self.span, hint)
        if isinstance(node, TensorStructInfo) and getattr(node, "axes", None) is not None:
            hint = "name every axis: `R.Tensor((n, 4))`"
            raise _lacks("row variables, labels or ragged axes", self.span, hint)
        if isinstance(node, PrimStructInfo):
            return f"R.Prim({literal(node.dtype)})"
        return super().form(form, node)

    def vdevice(self, vdevice: VDevice) -> str:
        return f'"{vdevice.full_text}"'

    def function(self, function: Function, name: str, indent: str) -> Steps:
        attributes = {k: v for k, v in function.attrs.items() if k != REFINE}
        self.span = function.span
        return super().function(replace(function, attrs=attributes), name, indent)

    def _signature(self, function: Function) -> str:
        for param in function.params:
            info = param.struct_info
            dim = as_sym(info.value) if isinstance(info, PrimStructInfo) and info.value else None
            if dim is not None:  # TVM has one name for the parameter and its value
                self.dims_of_params[param] = dim
                self.names.share(param, self.names.sym(dim))
        params = [f"{self.names.var(p)}: {self.param_info(p)}" for p in function.params]
        return f"({', '.join(params)}) -> {self.signature_info(function.ret_struct_info)}"

    def param_info(self, param: Var) -> str:
        """Prints the annotation of a parameter; `n: T.int64` is also the dim `n`."""
        if param in self.dims_of_params:
            return f"T.{getattr(param.struct_info, 'dtype', 'int64')}"
        return self.signature_info(param.struct_info)

    def finished(self) -> list[str]:
        for dim in self.dims_of_params.values():
            self._owners.pop(dim, None)
        return super().finished()

    def bindings(self, bindings: Any, indent: str, named: Var | None) -> Steps:
        for binding in bindings:
            self.span = binding.span or binding.var.span
            yield from super().bindings((binding,), indent, named)

    def _cast(self, cast: MatchCast, indent: str) -> str:
        if conditions_of(cast):
            raise _lacks("`R.require`", cast.span, "remove the conditions on sizes")
        return super()._cast(cast, indent)

    def conditional(self, var: Var, value: If, indent: str) -> Steps:
        start = len(self.lines)
        yield from super().conditional(var, value, indent)
        name = re.escape(self.names.var(var))
        if re.fullmatch(rf"\s*{name}: [^=]*", self.lines[start]):
            del self.lines[start]  # TVM has no annotation without a value

    def call(self, call: Call) -> str:
        if type(call.op) is ExternFunc:
            return self.packed_call(call, call.op)
        if call.sinfo_args:
            raise _lacks("kernels", call.span, "write the value with ops")
        return super().call(call)

    def packed_call(self, call: Call, callee: ExternFunc) -> str:
        """Prints a call of an external function; some are written as ops in TVM."""
        if "signature" in call.attrs:
            raise _lacks("`R.sig`", call.span, 'call it: `R.call_pure_packed("f", x, ...)`')
        arguments = [self.expr(arg) for arg in call.args]
        results = self.declared_results(call) if call.sinfo_args else "R.Tuple()"
        match callee.global_symbol:
            case "structir.call_dps":
                name = literal(getattr(call.args[0], "value", ""))
                return f"R.call_dps_packed({name}, {arguments[1]}, out_ty={results})"
            case "structir.print":
                return f"R.print({', '.join([*arguments[1:], f'format={arguments[0]}'])})"
            case "structir.assert_op":
                condition, text, values = arguments
                return f"R.assert_op({condition}, {values}, format={text})"
            case "structir.call_inplace":
                hint = "`R.call_pure_packed`, with a function that returns a new array"
                raise _lacks("call of a function on copies", call.span, hint)
        kind = "call_pure_packed" if is_pure_call(call) else "call_packed"
        operands = ", ".join([literal(callee.global_symbol), *arguments])
        return f"R.{kind}({operands}, ty_args={results})"

    def op_call(self, op: Op, call: Call) -> str:
        module = getattr(getattr(op.definition, "body", None), "__module__", "structir.")
        if op.name in LACKING or not module.startswith("structir."):
            raise _lacks(f"op `{op.name}`", call.span, "`passes.Decompose()`, or other ops")
        names, definition = REQUIRED.get(op.name, ()), op.definition
        parameters = definition.signature.parameters if names else ()  # type: ignore[attr-defined]
        required = {p.name: p.default for p in parameters if p.name in names}
        self.takes_shape = op.name in OF_SHAPES
        return super().op_call(op, replace(call, attrs={**required, **call.attrs}))

    def field_names(self, _whole: Any) -> None:
        """Fields have no names in TVM."""

    def sizes_or_expr(self, arg: Expr, of_sizes: bool) -> str:
        return super().sizes_or_expr(arg, of_sizes and not self.takes_shape)

    def expr(self, expr: Any) -> str:
        if type(expr) is Call:
            return self.call(expr)
        if type(expr) is PrimValue and type(expr.value) is float:
            dtype = getattr(expr.struct_info, "dtype", "float32")
            return f"R.prim_value(T.{dtype}({literal(expr.value)}))"
        if type(expr) is Constant:
            return self.constant(expr)
        if type(expr) is Tuple and not expr.fields:
            return "R.tuple()"
        return super().expr(expr)

    def constant(self, constant: Constant) -> str:
        """Prints a constant with all its values."""
        if constant.data.size > MAX_ELEMENTS:
            hint = "make it a parameter: `passes.BindParams` binds it later"
            raise _lacks(f"text of {constant.data.size} elements", self.span, hint)
        return values_text(constant.data)
