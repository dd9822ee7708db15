"""From the `ast` of a whole text to a module; callees are read first where that tells more."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.errors import DiagnosticError
from structir.ir.expr import Function, GlobalVar
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.node import Node
from structir.ir.struct_info import OBJECT
from structir.printer.parser.context import MISSING, AlreadyReported, Context, SourceMap
from structir.printer.parser.forms import static_of
from structir.printer.parser.functions import (
    FunctionSignature,
    is_function,
    read_function,
    read_signature,
)
from structir.printer.parser.kernels import is_kernel, read_kernel
from structir.printer.parser.statements import read_body
from structir.printer.parser.values import path_of, unsupported
from structir.printer.syntax import MODULE_ATTRS

IGNORED_CALLS = frozenset({"I.module_global_infos"})


class ModuleContext:
    """The functions of a text as others see them, and what is held beside it."""

    def __init__(
        self,
        place: SourceMap,
        constants: Mapping[str, Any],
        strict: bool,
        evaluated_names: frozenset[str] = frozenset(),
    ) -> None:
        self.source_map = place
        self.constants = constants
        self.strict = strict
        self.evaluated_names = evaluated_names  # names of sizes in signatures that Python evaluated
        self.name = "Module"
        self.functions_are_bare = True  # functions that stand alone call each other by name
        self.aliases: set[str] = {"cls"}
        self.attributes: dict[str, Any] = {}
        self.nodes: dict[str, ast.FunctionDef] = {}
        self.signatures: dict[str, FunctionSignature] = {}
        self.contexts: dict[str, Context] = {}
        self.functions: dict[str, Function] = {}
        self.kernel_nodes: dict[str, ast.FunctionDef] = {}
        self.kernels: dict[str, Kernel] = {}
        self.members: dict[str, None] = {}  # functions and kernels, as they are written
        self.errors: list[DiagnosticError] = []
        self.unknown_results: dict[str, set[str]] = {}  # for each function, the results it took for unknown

    # ---- what a function of the text asks

    def names_module(self, context: Context, node: ast.Name) -> bool:
        """Whether a name means the module itself."""
        return node.id in self.aliases and node.id not in context.names

    def function_of(self, context: Context, base: str, node: ast.Attribute) -> GlobalVar | None:
        """`cls.f`; None if the name before the point is not the module."""
        if base in context.names or base not in self.aliases:
            return None
        if node.attr in self.members:
            return self.global_var(context, node.attr, node)
        near = difflib.get_close_matches(node.attr, self.members, 2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(self.members)}"
        raise context.error(node, f"the module has no function {node.attr}", hint)

    def value_of(self, context: Context, name: str, node: ast.Name) -> Any:
        """A function that stands alone, by its name."""
        if not self.functions_are_bare or name not in self.members:
            return MISSING
        return self.global_var(context, name, node)

    def kernel_of(self, context: Context, name: str, node: ast.Name) -> GlobalVar | None:
        """A kernel, by its bare name."""
        return self.global_var(context, name, node) if name in self.kernel_nodes else None

    def global_var(self, context: Context, name: str, node: ast.expr) -> GlobalVar:
        """A reference to a function, with the most that is known of it by now."""
        span = context.source_map.span(node)
        if name in self.kernel_nodes:
            if name not in self.kernels:
                raise AlreadyReported
            return GlobalVar(name, self.kernels[name].struct_info, span)
        signature = self.signatures.get(name)
        if signature is None:
            raise AlreadyReported
        known = self.functions.get(name)
        info = signature.info() if known is None else known.struct_info
        if info.ret == OBJECT and signature.ret is None:
            self.unknown_results.setdefault(context.function, set()).add(name)
        return GlobalVar(name, info, span)

    # ---- reading

    def read(self, tree: ast.Module) -> IRModule:
        """The module of a text. All errors that do not rest on each other are raised at once."""
        self.collect(tree.body)
        for name, node in self.kernel_nodes.items():
            self.read_kernel(name, node)
        for name, node in self.nodes.items():
            self.read_signature(name, node)
        for name in self.order():
            self.read_function(name)
        self.raise_diagnostics()
        self.reparse_cycles()
        found: dict[str, Node] = {**self.functions, **self.kernels}
        functions = {name: found[name] for name in self.members}
        return IRModule(functions, self.attributes, self.name)

    def raise_diagnostics(self) -> None:
        """Raise what was found, as one error of the first one's class."""
        if self.errors:
            diagnostics = [d for error in self.errors for d in error.diagnostics]
            raise type(self.errors[0])(dict.fromkeys(diagnostics))

    def collect(self, nodes: list[ast.stmt]) -> None:
        """Find the functions; imports, docstrings and what a script does are passed over."""
        context = Context(self.source_map)
        for node in nodes:
            try:
                self.member(context, node)
            except DiagnosticError as error:
                self.errors.append(error)

    def member(self, context: Context, node: ast.stmt) -> None:
        """One statement outside of functions."""
        if isinstance(node, ast.ClassDef):
            self.name, self.functions_are_bare = node.name, False
            self.aliases.add(node.name)
            self.collect(node.body)
        elif isinstance(node, ast.FunctionDef) and (is_function(node) or is_kernel(node)):
            if node.name in self.members:
                hint = "give one of them another name"
                raise context.error(node, f"there are two functions {node.name}", hint)
            self.members[node.name] = None
            (self.kernel_nodes if is_kernel(node) else self.nodes)[node.name] = node
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.attribute(context, node.value)
        elif isinstance(node, ast.FunctionDef):
            hint = f"write @R.function, or @I.kernel, above def {node.name}"
            raise context.error(node, f"{node.name} has no decorator of the language", hint)
        elif not isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) and not _is_ignored(node):
            hint = "a text holds functions under @R.function, alone or in a class; "
            hint += 'other Python goes under if __name__ == "__main__"'
            raise unsupported(context, node, hint)

    def attribute(self, context: Context, node: ast.Call) -> None:
        """`I.module_attrs({...})`."""
        path = path_of(node.func)
        if path in IGNORED_CALLS:
            return
        value = static_of(context, node.args[0]) if node.args else None
        if path != f"I.{MODULE_ATTRS}" or not isinstance(value, dict):
            raise unsupported(context, node, "a module holds functions and I.module_attrs({...})")
        self.attributes |= value

    def read_signature(self, name: str, node: ast.FunctionDef) -> None:
        """The signature of one function, in a context of its own."""
        context = self.contexts[name] = Context(self.source_map, self, name)
        context.strict, context.evaluated_names = self.strict, self.evaluated_names
        try:
            self.signatures[name] = read_signature(context, node)
        except DiagnosticError as error:
            self.errors.append(error)

    def read_kernel(self, name: str, node: ast.FunctionDef) -> None:
        """One kernel, in a context of its own."""
        context = Context(self.source_map, self, name)
        try:
            kernel = read_kernel(context, node)
        except DiagnosticError as error:
            context.report(error, node)
        if context.errors:
            self.errors.append(context.error_class(context.errors))
        else:
            self.kernels[name] = kernel

    def reparse_cycles(self) -> None:
        """Functions of a cycle took each other's results for unknown; now they are known.

        A result was deduced from calls that may give anything, so it is true of every call. It is
        taken as stated then: no function is read more often than there are results to learn.
        """
        while stale := [name for name in self.nodes if self.adopt_inferred_results(name)]:
            for name in stale:
                self.unknown_results.pop(name)
                self.read_function(name)
            self.raise_diagnostics()

    def adopt_inferred_results(self, caller: str) -> bool:
        """Whether a result that a function took for unknown has turned out."""
        found = False
        for name in self.unknown_results.get(caller, ()):
            result = self.functions[name].ret_struct_info
            if result != OBJECT:
                self.signatures[name] = attrs.evolve(self.signatures[name], ret=result)
                found = True
        return found

    def read_function(self, name: str) -> None:
        """The body of one function."""
        signature = self.signatures.get(name)
        if signature is None:
            return
        context = self.contexts[name].copy()
        try:
            self.functions[name] = read_function(context, signature, read_body)
        except AlreadyReported:
            pass
        except DiagnosticError as error:
            context.report(error, signature.node)
        if context.errors:
            self.errors.append(context.error_class(context.errors))

    def order(self) -> Iterator[str]:
        """Functions whose result is not stated come before those that call them, cycles aside."""
        open_results = [n for n, s in self.signatures.items() if s.ret is None]
        if not open_results or len(self.nodes) == 1:
            yield from self.nodes
            return
        calls = {name: iter(callees) for name, callees in self.calls_of(open_results).items()}
        entered: set[str] = set()
        for root in self.nodes:
            stack = [] if root in entered else [root]
            while stack:
                entered.add(stack[-1])
                callee = next((c for c in calls[stack[-1]] if c not in entered), None)
                if callee is None:
                    yield stack.pop()
                else:
                    stack.append(callee)

    def calls_of(self, callees: list[str]) -> dict[str, list[str]]:
        """For each function, which of these it mentions."""
        wanted = set(callees)
        mention = re.compile(r"\b(\w+)\(" if self.functions_are_bare else r"\.(\w+)")
        first = self.source_map.source.first_line - self.source_map.line_shift
        found = {}
        for name, node in self.nodes.items():
            lines = self.source_map.lines[node.lineno - first + 1 : (node.end_lineno or 0) - first + 1]
            mentioned = mention.findall("\n".join(lines))
            found[name] = [callee for callee in dict.fromkeys(mentioned) if callee in wanted]
        return found


def _is_ignored(node: ast.stmt) -> bool:
    """A docstring, or what is done only where the file runs as a script."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
