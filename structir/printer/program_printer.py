"""The text of bindings, functions and modules; no depth of a program meets Python's stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from structir.analysis.lattice import unify_to_lca
from structir.ir.dims import Sym
from structir.ir.expr import (
    ATOMS,
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
from structir.ir.struct_info import OBJECT
from structir.printer.expr_printer import ExprPrinter, literal
from structir.printer.kernel_printer import kernel_lines
from structir.printer.names import NameScope
from structir.printer.syntax import (
    DATAFLOW,
    FUNC_ATTR,
    FUNCTION,
    HEADER,
    IR_MODULE,
    MATCH_CAST,
    MODULE_ATTRS,
    OUTPUT,
    PRIVATE,
    REQUIRE,
)
from structir.solver.program.learn_policy import LEARN, POLICIES

INDENT = "    "
Steps = Iterator[Any]  # each step is a part to be written before the rest goes on


class Section:
    """A function in the text: the place of the lines that declare its dims."""

    def __init__(self, outer: Section | None, indent: str) -> None:
        self.outer, self.indent = outer, indent
        self.depth: int = outer.depth + 1 if outer else 0
        self.place = 0


def around_both(one: Section, other: Section) -> Section:
    """The innermost function that holds both."""
    while one is not other:
        if one.depth < other.depth:
            one, other = other, one
        if one.outer is None:
            break
        one = one.outer
    return one


class ProgramPrinter(ExprPrinter):
    """Writes a function and all that is nested in it; the lines that declare dims are known last.

    A dim is declared by the innermost function around all that mention it.
    """

    inside = True

    def __init__(self, taken: frozenset[str] = frozenset(), module: str | None = None) -> None:
        super().__init__(NameScope(taken))
        self.lines: list[str] = []
        self.module = module
        self.mentions_module = False
        self.section: Section | None = None
        self.root: Section | None = None
        self._owners: dict[Sym, Section] = {}

    def run(self, steps: Steps) -> None:
        """Write all steps, each with what it asks to be written first."""
        stack = [steps]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(inner)

    def finished(self) -> list[str]:
        """The lines, with those at the head of each function that declare its dims."""
        heads: dict[Section, list[str]] = {}
        if self.mentions_module and self.root is not None:
            heads[self.root] = [f"{self.root.indent}cls = {self.module}"]
        for sym, section in self._owners.items():
            line = f"{section.indent}{self.names.of[sym]} = T.int64()"
            heads.setdefault(section, []).append(line)
        lines: list[str] = []
        done = 0
        for section in sorted(heads, key=lambda section: section.place):
            lines += self.lines[done : section.place]
            lines += heads[section]
            done = section.place
        return lines + self.lines[done:]

    def sym(self, sym: Sym) -> str:
        section = self.section
        if section is not None:
            self._owners[sym] = around_both(self._owners.get(sym, section), section)
        return self.names.sym(sym)

    def global_var(self, var: GlobalVar) -> str:
        self.mentions_module = True
        return super().global_var(var)

    # ---- functions

    def function(self, function: Function, name: str, indent: str) -> Steps:
        """A function with its decorator."""
        mark, outside = self.names.mark(), (self.section, self._infos, self._dims)
        inner = indent + INDENT
        self.section = section = Section(self.section, inner)
        self._infos, self._dims = {}, {}  # what is written again is mentioned again
        attributes = dict(function.attrs)
        self.lines.append(f"{indent}@R.{FUNCTION}{self._options(function, attributes)}")
        self.lines.append(f"{indent}def {name}{self._signature(function)}:")
        if attributes:
            self.lines.append(f"{inner}R.{FUNC_ATTR}({literal(attributes)})")
        section.place = len(self.lines)
        yield self.sequence(function.body, inner)
        self.lines.append(f"{inner}return {self.expr(function.body.body)}")
        if section.outer is None:
            self.root = section
        self.section, self._infos, self._dims = outside
        self.names.release(mark)

    def _options(self, function: Function, attributes: dict[str, Any]) -> str:
        options = [] if function.is_pure else ["pure=False"]
        if attributes.get(PRIVATE) is True:
            del attributes[PRIVATE]
            options.append(f"{PRIVATE}=True")
        if attributes.get(LEARN) in POLICIES:
            options.append(f"{LEARN}={literal(attributes.pop(LEARN))}")
        return f"({', '.join(options)})" if options else ""

    def _signature(self, function: Function) -> str:
        params = [
            f"{self.names.var(p)}: {self.signature_info(p.struct_info)}" for p in function.params
        ]
        return f"({', '.join(params)}) -> {self.signature_info(function.ret_struct_info)}"

    # ---- bindings

    def sequence(self, seq: SeqExpr, indent: str, given: Var | None = None) -> Steps:
        """The bindings of a sequence; `given` is a last variable that has its name already."""
        for block in seq.blocks:
            if isinstance(block, DataflowBlock):
                self.lines.append(f"{indent}with R.{DATAFLOW}():")
                yield self.bindings(block.bindings, indent + INDENT, given)
                outputs = [b.var for b in block.bindings if type(b.var) is not DataflowVar]
                names = ", ".join([self.names.var(var) for var in outputs])
                self.lines.append(f"{indent}{INDENT}R.{OUTPUT}({names})")
            else:
                yield self.bindings(block.bindings, indent, given)

    def bindings(self, bindings: tuple[Binding, ...], indent: str, given: Var | None) -> Steps:
        """Bindings, a line each, or several for a branch and a function."""
        lines, names = self.lines, self.names
        for binding in bindings:
            value, var = binding.value, binding.var
            kind = type(value)
            if kind is If:
                yield self.choice(var, value, indent)  # type: ignore[arg-type]
            elif kind is Function:
                name = names.var(var)
                yield self.function(value, name, indent)  # type: ignore[arg-type]
            elif type(binding) is MatchCast:
                lines.append(self._cast(binding, indent))
            else:
                written = self.expr(value)
                info = self._infos.get(var.struct_info) or self.info(var.struct_info)
                lines.append(f"{indent}{names.var(var)}: {info} = {written}")

    def _cast(self, cast: MatchCast, indent: str) -> str:
        stated = conditions_of(cast)
        if stated:
            facts = ", ".join([f'"{self.size(fact)}"' for fact in stated])
            return f"{indent}R.{REQUIRE}({facts})"
        value, info = self.expr(cast.value), self.info(cast.struct_info)
        own = cast.var.struct_info
        annotation = "" if own == cast.struct_info else f": {self.info(own)}"
        return f"{indent}{self.names.var(cast.var)}{annotation} = R.{MATCH_CAST}({value}, {info})"

    # ---- branches

    def choice(self, var: Var, value: If, indent: str) -> Steps:
        """An `if`, both sides of which end by giving `var` its value."""
        sides = value.true_branch, value.false_branch
        infos = [side.struct_info for side in sides]
        joined = unify_to_lca(infos[0], infos[1]) if None not in infos else None  # type: ignore[arg-type]
        name = self.names.var(var)
        if var.struct_info != joined:
            self.lines.append(f"{indent}{name}: {self.info(var.struct_info)}")
        for head, side in zip((f"if {self.expr(value.cond)}:", "else:"), sides, strict=True):
            self.lines.append(indent + head)
            yield self.side(side, name, indent + INDENT)

    def side(self, side: SeqExpr, name: str, indent: str) -> Steps:
        """One branch: its last line binds its result under the name of the choice."""
        mark = self.names.mark()
        last = last_given(side)
        if last is not None:
            self.names.share(last, name)
        yield self.sequence(side, indent, last)
        if last is None:
            self.lines.append(f"{indent}{name} = {self.expr(side.body)}")
        self.names.release(mark)


def last_given(side: SeqExpr) -> Var | None:
    """The variable that a branch ends by binding and gives, where one line can say both."""
    if not side.blocks or type(side.blocks[-1]) is not BindingBlock:
        return None
    last = side.blocks[-1].bindings[-1]
    plain = type(last) is VarBinding and (type(last.value) in ATOMS or type(last.value) is Tuple)
    return last.var if last.var is side.body and not plain else None


# ---- whole texts -----------------------------------------------------------------------------


def module_text(module: IRModule) -> str:
    """A module as a Python file."""
    lines = [HEADER, "", "", f"@I.{IR_MODULE}", f"class {module.name}:"]
    if module.attrs:
        lines += [f"{INDENT}I.{MODULE_ATTRS}({literal(dict(module.attrs))})", ""]
    for name, member in module.functions.items():
        lines += [*member_lines(member, name, INDENT, module.name), ""]
    if not module.functions and not module.attrs:
        lines += [f"{INDENT}pass", ""]
    return "\n".join(lines)


def member_lines(member: Any, name: str, indent: str, module: str | None) -> list[str]:
    """A function or a kernel of a module."""
    if isinstance(member, Kernel):
        return kernel_lines(member, name, indent, module)
    writer = ProgramPrinter(frozenset() if module is None else frozenset({module}), module)
    writer.run(writer.function(member, name, indent))
    return writer.finished()


def function_text(function: Function) -> str:
    """A function alone, under the name that its attributes give it."""
    name = function.attrs.get("global_symbol", "main")
    return "\n".join([*member_lines(function, name, "", "Module"), ""])


def block_text(block: BindingBlock) -> str:
    """Bindings alone."""
    return sequence_text(SeqExpr((block,), Tuple(())), result=False)


def sequence_text(seq: SeqExpr, result: bool = True) -> str:
    """A sequence alone, its result on the last line."""
    writer = ProgramPrinter()
    writer.run(writer.sequence(seq, ""))
    return "\n".join(writer.lines + ([writer.expr(seq.body)] if result else []))


def if_text(value: If) -> str:
    """A choice alone, its value under a name."""
    writer = ProgramPrinter()
    writer.run(writer.choice(Var("value", value.struct_info or OBJECT), value, ""))
    return "\n".join(writer.lines)
