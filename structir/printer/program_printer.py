"""Prints bindings, functions and modules, without recursion over nested programs."""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import Any

from structir.analysis.deduction import deduce, leave_scope
from structir.analysis.lattice import unify_to_lca
from structir.ir.binding_dims import bound_dims, row_size_of
from structir.ir.dims import Sym
from structir.ir.expr import (
    ATOMS,
    DEFAULTS,
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import OBJECT, StructInfo, TupleStructInfo
from structir.printer.expr_printer import ExprPrinter, literal
from structir.printer.kernel_printer import kernel_lines
from structir.printer.names import NameScope
from structir.printer.syntax import (
    DATAFLOW,
    FUNC_ATTR,
    FUNCTION,
    GLOBAL_INFOS,
    HEADER,
    IR_MODULE,
    MATCH_CAST,
    METADATA,
    MODULE_ATTRS,
    OPAQUE_RESULT,
    OUTPUT,
    PRIVATE,
    REQUIRE,
    VDEVICE,
)
from structir.solver.program.refine_policy import POLICIES, REFINE

INDENT = "    "
ARRAYS = (
    '# Arrays by reference: structir.parse(text, constants={"w": w}) finds them by their contents'
)
Steps = Iterator[Any]  # yields the steps of nested parts, which run before the next step


class Section:
    """A function in the source, with the line index at which its dims are declared."""

    def __init__(self, outer: Section | None, indent: str) -> None:
        self.outer, self.indent = outer, indent
        self.depth: int = outer.depth + 1 if outer else 0
        self.first_line = 0


def enclosing_both(first: Section, second: Section) -> Section:
    """Returns the innermost function that encloses both."""
    while first is not second:
        if first.depth < second.depth:
            first, second = second, first
        if first.outer is None:
            break
        first = first.outer
    return first


class ProgramPrinter(ExprPrinter):
    """Prints a function and everything nested in it.

    A dim is declared in the innermost function that encloses all its uses. Declarations are
    therefore inserted last.
    """

    inside = True

    def __init__(self, reserved: frozenset[str] = frozenset(), module: str | None = None) -> None:
        super().__init__(NameScope(reserved))
        self.lines: list[str] = []
        self.module = module
        self.mentions_module = False
        self.section: Section | None = None
        self.root: Section | None = None
        self.binding_infos: list[StructInfo] = []  # whose dims are in scope
        self._owners: dict[Sym, Section] = {}

    def run(self, steps: Steps) -> None:
        """Runs steps to the end, nested steps first."""
        stack = [steps]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(inner)

    def finished(self) -> list[str]:
        """Returns the lines, with the declarations of dims inserted in each function."""
        heads: dict[Section, list[str]] = {}
        if self.mentions_module and self.root is not None:
            heads[self.root] = [f"{self.root.indent}cls = {self.module}"]
        for sym, section in self._owners.items():
            declaration = f"{section.indent}{self.names.of[sym]} = T.int64()"
            heads.setdefault(section, []).append(declaration)
        lines: list[str] = []
        start = 0
        for section in sorted(heads, key=lambda section: section.first_line):
            lines += self.lines[start : section.first_line]
            lines += heads[section]
            start = section.first_line
        return lines + self.lines[start:]

    def sym(self, sym: Sym) -> str:
        section = self.section
        if section is not None and row_size_of(sym) is None:  # a row variable is not declared
            self._owners[sym] = enclosing_both(self._owners.get(sym, section), section)
        return self.names.sym(sym)

    def global_var(self, var: GlobalVar) -> str:
        self.mentions_module = True
        return super().global_var(var)

    # ---- functions

    def function(self, function: Function, name: str, indent: str) -> Steps:
        """Prints a function with its decorator."""
        mark = self.names.mark()
        outside, count = (self.section, self._infos, self._dims), len(self.binding_infos)
        inner = indent + INDENT
        self.section = section = Section(self.section, inner)
        self._infos, self._dims = (
            {},
            {},
        )  # memoized source does not record the uses of dims in this function
        self.binding_infos += [param.struct_info for param in function.params]
        attributes = {k: v for k, v in function.attrs.items() if k != DEFAULTS}
        self.lines.append(f"{indent}@R.{FUNCTION}{self._options(function, attributes)}")
        self.lines.append(f"{indent}def {name}{self._signature(function)}:")
        if attributes:
            self.lines.append(f"{inner}R.{FUNC_ATTR}({literal(attributes)})")
        section.first_line = len(self.lines)
        yield self.sequence(function.body, inner)
        self.lines.append(f"{inner}return {self.expr(function.body.body)}")
        if section.outer is None:
            self.root = section
        self.section, self._infos, self._dims = outside
        del self.binding_infos[count:]
        self.names.release(mark)

    def _options(self, function: Function, attributes: dict[str, Any]) -> str:
        options = [] if function.is_pure else ["pure=False"]
        if attributes.get(PRIVATE) is True:
            del attributes[PRIVATE]
            options.append(f"{PRIVATE}=True")
        if function.ret_struct_info == OBJECT != deduce(function.body.body):
            options.append(f"{OPAQUE_RESULT}=True")
        if attributes.get(REFINE) in POLICIES:
            options.append(f"{REFINE}={literal(attributes.pop(REFINE))}")
        return f"({', '.join(options)})" if options else ""

    def _signature(self, function: Function) -> str:
        defaults = function.attrs.get(DEFAULTS, {})
        params = [
            f"{self.names.var(p)}: {self.signature_info(p.struct_info)}"
            + (f" = {self.expr(defaults[p.name])}" if p.name in defaults else "")
            for p in function.params
        ]
        return f"({', '.join(params)}) -> {self.signature_info(function.ret_struct_info)}"

    # ---- bindings

    def sequence(self, seq: SeqExpr, indent: str, named: Var | None = None) -> Steps:
        """Prints the bindings of a sequence."""
        for block in seq.blocks:
            if isinstance(block, DataflowBlock):
                self.lines.append(f"{indent}with R.{DATAFLOW}():")
                yield self.bindings(block.bindings, indent + INDENT, named)
                outputs = [b.var for b in block.bindings if type(b.var) is not DataflowVar]
                names = ", ".join([self.names.var(var) for var in outputs])
                self.lines.append(f"{indent}{INDENT}R.{OUTPUT}({names})")
            else:
                yield self.bindings(block.bindings, indent, named)

    def bindings(self, bindings: tuple[Binding, ...], indent: str, named: Var | None) -> Steps:
        """Prints bindings: one line each, several for an `if` or a local function."""
        lines, names = self.lines, self.names
        for binding in bindings:
            value, var = binding.value, binding.var
            kind = type(value)
            if kind is If:
                yield self.conditional(var, value, indent)  # type: ignore[arg-type]
            elif kind is Function:
                name = names.var(var)
                if var.struct_info != value.struct_info:
                    lines.append(f"{indent}{name}: {self.info(var.struct_info)}")
                yield self.function(value, name, indent)  # type: ignore[arg-type]
            elif type(binding) is MatchCast:
                lines.append(self._cast(binding, indent))
            else:
                source = self.expr(value)
                info = self._infos.get(var.struct_info) or self.info(var.struct_info)
                if kind is Tuple and not _has_inferred_info(var, value):  # type: ignore[arg-type]
                    # an annotation of a tuple expression is refined by it, a declaration is not
                    lines.append(f"{indent}{names.var(var)}: {info}")
                    lines.append(f"{indent}{names.var(var)} = {source}")
                    continue
                lines.append(f"{indent}{names.var(var)}: {info} = {source}")

    def _cast(self, cast: MatchCast, indent: str) -> str:
        conditions = conditions_of(cast)
        if conditions:
            requirements = ", ".join([f'"{self.size(condition)}"' for condition in conditions])
            return f"{indent}R.{REQUIRE}({requirements})"
        value, info = self.expr(cast.value), self.info(cast.struct_info)
        self.binding_infos.append(cast.struct_info)
        var_info = cast.var.struct_info
        annotation = "" if var_info == cast.struct_info else f": {self.info(var_info)}"
        return f"{indent}{self.names.var(cast.var)}{annotation} = R.{MATCH_CAST}({value}, {info})"

    # ---- branches

    def conditional(self, var: Var, value: If, indent: str) -> Steps:
        """Prints an `if` whose branches both bind `var` last."""
        branches = value.true_branch, value.false_branch
        info, name = var.struct_info, self.names.var(var)
        is_result = [deduce(branch.body) == info for branch in branches]  # in any scope
        if not all(is_result) and info != unify_to_lca(*map(self.branch_info, branches)):
            self.lines.append(f"{indent}{name}: {self.info(info)}")
        for head, branch in zip((f"if {self.expr(value.cond)}:", "else:"), branches, strict=True):
            self.lines.append(indent + head)
            yield self.branch(branch, name, indent + INDENT)

    def branch_info(self, branch: SeqExpr) -> StructInfo:
        """Returns the StructInfo that the parser infers for a branch.

        The one stored in the branch may be older than the StructInfo of its variables.
        """
        bindings = branch.bindings()
        casts = [b.struct_info for b in bindings if isinstance(b, MatchCast)]
        variables = {binding.var for binding in bindings}
        own = bound_dims(casts) - bound_dims(self.binding_infos)
        return leave_scope(deduce(branch.body), own, variables)

    def branch(self, branch: SeqExpr, name: str, indent: str) -> Steps:
        """Prints a branch; its last line binds its result to the name of the `if`."""
        mark, count = self.names.mark(), len(self.binding_infos)
        result = result_variable(branch)
        if result is not None:
            self.names.share(result, name)
        yield self.sequence(branch, indent, result)
        if result is None:
            self.lines.append(f"{indent}{name} = {self.expr(branch.body)}")
        del self.binding_infos[count:]
        self.names.release(mark)


def _has_inferred_info(var: Var, value: Tuple) -> bool:
    """Returns whether the StructInfo of a variable is that of the fields of its tuple."""
    info = var.struct_info
    if type(info) is TupleStructInfo and info.names == value.names:
        fields = [field.struct_info for field in value.fields]
        if len(fields) == len(info.fields) and all(map(is_, fields, info.fields)):
            return True
    return info == deduce(value)


def result_variable(side: SeqExpr) -> Var | None:
    """Returns the last variable of a branch if it is the result and its binding is one line."""
    blocks = [block for block in side.blocks if block.bindings]
    if not blocks or type(blocks[-1]) is not BindingBlock:
        return None
    last = blocks[-1].bindings[-1]
    plain = type(last) is VarBinding and (type(last.value) in ATOMS or type(last.value) is Tuple)
    return last.var if last.var is side.body and not plain else None


# ---- complete sources --------------------------------------------------------------------------


def module_text(module: IRModule) -> str:
    """Returns the source of a module, a Python file."""
    lines = [HEADER, "", "", f"@I.{IR_MODULE}", f"class {module.name}:"]
    lines += attribute_lines(module)
    for name, member in module.functions.items():
        lines += [*member_lines(member, name, INDENT, module.name), ""]
    if not module.functions and not module.attrs:
        lines += [f"{INDENT}pass", ""]
    text = "\n".join(lines)
    return f"{HEADER}\n{ARRAYS}{text[len(HEADER) :]}" if f'{METADATA}["' in text else text


def attribute_lines(module: IRModule) -> list[str]:
    """Returns the source lines of the attributes of a module, and of its list of devices."""
    attributes = {k: v for k, v in module.attrs.items() if k != GLOBAL_INFOS}
    lines = [f"{INDENT}I.{MODULE_ATTRS}({literal(attributes)})", ""] if attributes else []
    entries = [", ".join(map(literal, entry)) for entry in module.attrs.get(GLOBAL_INFOS, ())]
    devices = ", ".join([f"I.{VDEVICE}({entry})" for entry in entries])
    call = f'{INDENT}I.{GLOBAL_INFOS}({{"{VDEVICE}": [{devices}]}})'
    return [*lines, call, ""] if entries else lines


def member_lines(member: Any, name: str, indent: str, module: str | None) -> list[str]:
    """Returns the source lines of a function or kernel of a module."""
    if isinstance(member, Kernel):
        return kernel_lines(member, name, indent, module)
    printer = ProgramPrinter(frozenset() if module is None else frozenset({module}), module)
    printer.run(printer.function(member, name, indent))
    return printer.finished()


def function_text(function: Function) -> str:
    """Returns the source of a function outside a module, named by its `global_symbol`."""
    name = function.attrs.get("global_symbol", "main")
    return "\n".join([*member_lines(function, name, "", "Module"), ""])


def block_text(block: BindingBlock) -> str:
    """Returns the source of a block."""
    return sequence_text(SeqExpr((block,), Tuple(())), result=False)


def sequence_text(seq: SeqExpr, result: bool = True) -> str:
    """Returns the source of a sequence, with its result on the last line."""
    printer = ProgramPrinter()
    printer.run(printer.sequence(seq, ""))
    return "\n".join(printer.lines + ([printer.expr(seq.body)] if result else []))


def if_text(value: If) -> str:
    """Returns the source of an `if` that binds the variable `value`."""
    printer = ProgramPrinter()
    printer.run(printer.conditional(Var("value", value.struct_info or OBJECT), value, ""))
    return "\n".join(printer.lines)
