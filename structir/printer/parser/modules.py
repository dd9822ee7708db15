"""Parses a whole text to a module; callees without a return annotation are parsed first."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping
from keyword import iskeyword
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError, warn
from structir.ir.expr import Constant, Function, GlobalVar
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.node import Node
from structir.ir.struct_info import OBJECT
from structir.printer.parser.captured import FUNCTIONS, captured, shared
from structir.printer.parser.context import MISSING, AlreadyReported, Context
from structir.printer.parser.forms import static_of
from structir.printer.parser.functions import (
    FunctionSignature,
    is_declaration,
    is_function,
    read_function,
    read_signature,
)
from structir.printer.parser.imported_functions import Imports, with_local_functions
from structir.printer.parser.kernels import is_kernel, read_kernel
from structir.printer.parser.macros import Macro, check_macro, expand, is_macro, shallow_copy
from structir.printer.parser.source_map import SourceMap
from structir.printer.parser.statements import read_body, read_result
from structir.printer.parser.static_functions import imported_modules
from structir.printer.parser.static_values import static_value
from structir.printer.parser.tir_functions import is_tir_function, kernel_syntax
from structir.printer.parser.tvm_spellings import uses_spellings
from structir.printer.parser.unrolling import Expansion
from structir.printer.parser.values import AT_MODULE_LEVEL, path_of, unsupported
from structir.printer.parser.vdevices import read_global_infos
from structir.printer.syntax import GLOBAL_INFOS, IR_MODULE, MODULE_ATTRS

NO_VALUES: Mapping[str, Any] = {}


def _check_class(context: Context, node: ast.ClassDef) -> None:
    """Rejects base classes, keywords and decorators, which have no meaning in a program."""
    known = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    others = [d for d in known if (path_of(d) or "").rpartition(".")[2] != IR_MODULE]
    parameters = getattr(node, "type_params", [])
    extra: list[ast.AST] = [*node.bases, *[k.value for k in node.keywords], *others, *parameters]
    if extra:
        message = f"class `{node.name}`: expected no base class, keyword or other decorator"
        hint = f"write `@I.ir_module` and `class {node.name}:`"
        raise context.error(extra[0], message, hint, "E0124")


class ModuleContext:
    """The functions of a text with their signatures, its constants, and the reported errors."""

    def __init__(
        self,
        source_map: SourceMap,
        constants: Mapping[str, Any],
        strict: bool,
        evaluated_names: frozenset[str] = frozenset(),
        python_values: Mapping[str, Any] = NO_VALUES,
        single: str = "",
    ) -> None:
        self.source_map = source_map
        self.constants = constants
        self.strict = strict
        self.evaluated_names = evaluated_names  # dims that Python evaluated in signatures
        self.python_values = python_values or constants  # that the program may capture
        self.imported_modules: Mapping[str, Any] = NO_VALUES  # whose functions the text may call
        self.statements: list[ast.stmt] = []
        self.single = single  # the name of a function that belongs to no module
        self.name = "Module"
        self.functions_are_bare = True  # functions outside of a class call each other by name
        self.aliases: set[str] = {"cls"}
        self.attributes: dict[str, Any] = {}
        self.nodes: dict[str, ast.FunctionDef] = {}
        self.signatures: dict[str, FunctionSignature] = {}
        self.contexts: dict[str, Context] = {}
        self.functions: dict[str, Function] = {}
        self.kernel_nodes: dict[str, ast.FunctionDef] = {}
        self.kernels: dict[str, Kernel] = {}
        self.tir_functions: set[str] = set()
        self.untyped_constants: list[ast.Call] = []
        self.members: dict[str, None] = {}  # functions and kernels in source order
        self.declarations: list[ast.stmt] = []  # of dims, above functions
        self.macros: dict[str, Macro] = {}
        self.imports = Imports(self.members.__contains__)
        self.shared_constants: dict[int, tuple[Any, Constant]] = {}
        self.expansion = Expansion()
        self.errors: list[DiagnosticError] = []
        self.unknown_results: dict[
            str, set[str]
        ] = {}  # by caller: callees whose result was unknown

    # ---- queries of the functions being parsed

    def names_module(self, context: Context, node: ast.Name) -> bool:
        """Whether a name refers to the module itself."""
        return node.id in self.aliases and node.id not in context.names

    def static_name(self, name: str) -> Any:
        """Returns the value that a name of the text denotes in Python, or MISSING."""
        if name in self.macros:
            return self.macros[name]
        is_own = name in self.aliases or (self.functions_are_bare and name in self.members)
        if is_own:
            return MISSING
        return self.python_values.get(name, self.imported_modules.get(name, MISSING))

    def python_value(self, context: Context, node: ast.expr) -> Any:
        """Returns the value that an expression denotes in Python, as a value of the program."""
        value = static_value(context, node)
        return value if value is MISSING else self.program_value(context, value, node)

    def program_value(self, context: Context, value: Any, node: ast.expr) -> Any:
        """Returns a value of Python as a value of the program, or MISSING."""
        if type(value) in FUNCTIONS:
            return self.imported(context, value, node)
        return captured(value, context.dim_of, self.constant_of)

    def constant_of(self, array: Any) -> Constant:
        """Returns the one constant of an array; a large array is not copied."""
        constant = self.shared_constants.get(id(array))
        if constant is None:
            constant = array, Constant(shared(array))
            self.shared_constants[id(array)] = constant
        return constant[1]

    def imported(self, context: Context, value: Any, node: ast.expr) -> GlobalVar:
        """Returns a reference to a function of another module, which becomes a private one."""
        try:
            name = self.imports.add(value, _name_for(node))
        except DiagnosticError as error:
            raise type(error)(
                [d.at(context.source_map.span(node)) for d in error.diagnostics]
            ) from None
        info = self.imports.functions[name].struct_info  # type: ignore[attr-defined]
        return GlobalVar(name, info, context.source_map.span(node))

    def signature_of(self, name: str) -> Any:
        """Returns the parameters of a function of the text, or of one that it imports."""
        signature = self.signatures.get(name)
        return self.imports.signature_of(name) if signature is None else signature

    def expand_macro(self, context: Context, macro: Macro, node: ast.Call) -> Any:
        """Parses a call of a macro."""
        return expand(context, macro, node, read_result)

    def around_macro(self, values: Mapping[str, Any]) -> ModuleContext:
        """Returns the state of the module as a macro of another text sees it."""
        view: ModuleContext = shallow_copy(self, values)
        return view

    def function_of(self, context: Context, base: str, node: ast.Attribute) -> GlobalVar | None:
        """Resolves `cls.f`; returns None if the name before the dot is not the module."""
        if base in context.names or base not in self.aliases:
            return None
        if node.attr in self.members:
            return self.global_var(context, node.attr, node)
        matches = difflib.get_close_matches(node.attr, self.members, 2)
        hint = f"did you mean {' or '.join(f'`{base}.{name}`' for name in matches)}?"
        hint = (
            hint if matches else f"call one of {', '.join(f'`{base}.{n}`' for n in self.members)}"
        )
        raise context.error(node, f"no function `{node.attr}` in the module", hint, "E0102")

    def value_of(self, context: Context, name: str, node: ast.Name) -> Any:
        """Resolves the name of a function outside of a class."""
        if not self.functions_are_bare or name not in self.members:
            return MISSING
        return self.global_var(context, name, node)

    def kernel_of(self, context: Context, name: str, node: ast.Name) -> GlobalVar | None:
        """Resolves the bare name of a kernel."""
        return self.global_var(context, name, node) if name in self.kernel_nodes else None

    def global_var(self, context: Context, name: str, node: ast.expr) -> GlobalVar:
        """Returns a reference to a function with the StructInfo inferred so far."""
        span = context.source_map.span(node)
        if name in self.kernel_nodes:
            if name not in self.kernels:
                raise AlreadyReported
            return GlobalVar(name, self.kernels[name].struct_info, span)
        signature = self.signatures.get(name)
        if signature is None:
            raise AlreadyReported
        function = self.functions.get(name)
        info = signature.info() if function is None else function.struct_info
        if info.ret == OBJECT and signature.ret is None:
            self.unknown_results.setdefault(context.function, set()).add(name)
        return GlobalVar(name, info, span)

    # ---- parsing

    def read(self, tree: ast.Module) -> IRModule:
        """Parses the module of a text; raises all independent errors at once."""
        self.statements, self.imported_modules = tree.body, imported_modules(tree.body)
        self.collect(tree.body)
        for node in (
            (*self.nodes.values(), *self.kernel_nodes.values()) if self.declarations else ()
        ):
            self.declare_dims(node)
        for name, node in self.kernel_nodes.items():
            self.read_kernel(name, node)
        for name, node in self.nodes.items():
            self.read_signature(name, node)
        for name in self.order():
            self.read_function(name)
        self.raise_diagnostics()
        self.reparse_cycles()
        self.warn_of_constants(tree)
        if self.imports.functions and self.single in self.functions:
            function = self.functions[self.single]
            return IRModule({self.single: with_local_functions(function, self.imports.functions)})
        by_name: dict[str, Node] = {**self.functions, **self.kernels}
        functions = {name: by_name[name] for name in self.members} | self.imports.functions
        return IRModule(functions, self.attributes, self.name)

    def raise_diagnostics(self) -> None:
        """Raises the recorded errors as one error of the class of the first."""
        if self.errors:
            diagnostics = [d for error in self.errors for d in error.diagnostics]
            raise type(self.errors[0])(dict.fromkeys(diagnostics))

    def warn_of_constants(self, tree: ast.Module) -> None:
        """Warns that integers without a dtype are int64, where a text is written for TVM."""
        for node in self.untyped_constants:
            value = node.args[0] if node.args else node.keywords[0].value
            texts = [n for n in ast.walk(value) if isinstance(n, ast.Constant)]
            is_integer = all(type(n.value) is int for n in texts)
            if is_integer and texts and uses_spellings(tree):
                text = ast.unparse(node)
                message = f"`{text}` has dtype int64, where TVM has int32"
                hint = f'write the dtype: `R.const({ast.unparse(value)}, "int32")`'
                warn(Diagnostic(message, self.source_map.span(node), hint=hint, code="E0101"))
                return

    def collect(self, nodes: list[ast.stmt]) -> None:
        """Collects the functions; skips imports, docstrings and the `__main__` block."""
        context = Context(self.source_map)
        for node in nodes:
            try:
                self.member(context, node)
            except DiagnosticError as error:
                self.errors.append(error)

    def member(self, context: Context, node: ast.stmt) -> None:
        """Collects one statement outside of functions."""
        if isinstance(node, ast.ClassDef):
            _check_class(context, node)
            self.name, self.functions_are_bare = node.name, False
            self.aliases.add(node.name)
            self.collect(node.body)
        elif isinstance(node, ast.FunctionDef) and is_tir_function(node):
            self.tir_functions.add(node.name)
            self.member(context, kernel_syntax(Context(self.source_map, self), node))
        elif isinstance(node, ast.FunctionDef) and (is_function(node) or is_kernel(node)):
            if node.name in self.members:
                hint = f"rename one: `def {node.name}_1(...)`"
                raise context.error(node, f"duplicate function `{node.name}`", hint, "E0124")
            self.members[node.name] = None
            (self.kernel_nodes if is_kernel(node) else self.nodes)[node.name] = node
        elif isinstance(node, ast.FunctionDef) and is_macro(node):
            self.macros[node.name] = Macro(node, self.source_map, is_valid=False)
            check_macro(context, node)
            self.macros[node.name] = Macro(node, self.source_map, None, self.defaults_of(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.attribute(context, node.value)
        elif isinstance(node, ast.FunctionDef):
            hint = f"write `@R.function` or `@I.kernel` above `def {node.name}`"
            message = f"function `{node.name}` has no decorator"
            raise context.error(node, message, hint, "E0124")
        elif isinstance(node, ast.Assign) and _declares_dims(node):
            self.declarations.append(node)
        elif not isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) and not _is_ignored(node):
            hint = 'move other Python code under `if __name__ == "__main__":`'
            raise unsupported(context, node, hint, AT_MODULE_LEVEL)

    def defaults_of(self, node: ast.FunctionDef) -> dict[str, Any]:
        """Returns the default values of a macro of the text, by parameter."""
        args = node.args
        positional = [*args.posonlyargs, *args.args][::-1]
        pairs = [*zip(positional, args.defaults[::-1], strict=False)]
        pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d]
        context = Context(self.source_map, self)
        defaults = {item.arg: static_value(context, value) for item, value in pairs}
        for item, value in pairs:
            if defaults[item.arg] is MISSING:
                message = f"expected a value of Python as a default, found {ast.unparse(value)}"
                raise context.error(value, message, f"remove the default of `{item.arg}`", "E0124")
        return defaults

    def declare_dims(self, node: ast.FunctionDef) -> None:
        """Declares the dims that are declared above a function in it: dims belong to functions."""
        own = {arg.arg for arg in node.args.args}
        names = [n.id for inner in self.declarations for n in _bound_names(inner)]
        text = ast.unparse(node)
        for name in names:
            if name not in own and re.search(rf"\b{name}\b", text):
                declaration = ast.parse(f"{name} = T.int64()").body[0]
                node.body.insert(0, ast.copy_location(declaration, node))

    def attribute(self, context: Context, node: ast.Call) -> None:
        """Parses `I.module_attrs({...})`."""
        path = path_of(node.func)
        if path == f"I.{GLOBAL_INFOS}":
            entries = read_global_infos(context, node)
            self.attributes |= {GLOBAL_INFOS: entries} if entries else {}
            return
        value = static_of(context, node.args[0]) if node.args else None
        if path != f"I.{MODULE_ATTRS}" or not isinstance(value, dict):
            hint = "the only call at module level is `I.module_attrs({...})`"
            raise unsupported(context, node, hint, AT_MODULE_LEVEL)
        self.attributes |= value

    def read_signature(self, name: str, node: ast.FunctionDef) -> None:
        """Parses the signature of one function in a new context."""
        context = self.contexts[name] = Context(self.source_map, self, name)
        context.strict, context.evaluated_names = self.strict, self.evaluated_names
        try:
            self.signatures[name] = read_signature(context, node)
        except AlreadyReported:  # a function that is not parsed yet
            message = f"the signature of `{name}` refers to a function of the module"
            hint = "write shapes and dtypes in signatures"
            self.errors.append(context.error(node, message, hint, "E0124"))
        except DiagnosticError as error:
            span = self.source_map.span(node)
            self.errors.append(type(error)([d.at(span) for d in error.diagnostics]))

    def read_kernel(self, name: str, node: ast.FunctionDef) -> None:
        """Parses one kernel in a new context."""
        context = Context(self.source_map, self, name)
        try:
            kernel = read_kernel(context, node, name in self.tir_functions)
        except DiagnosticError as error:
            context.report(error, node)
        if context.errors:
            self.errors.append(context.error_class(context.errors))
        else:
            self.kernels[name] = kernel

    def reparse_cycles(self) -> None:
        """Parses functions of call cycles again, with the results inferred meanwhile.

        A result was inferred from calls of unknown result, so it holds for every call and becomes
        the declared result. The number of rounds is at most the number of unknown results.
        """
        while stale := [name for name in self.nodes if self.adopt_inferred_results(name)]:
            for name in stale:
                self.unknown_results.pop(name)
                self.read_function(name)
            self.raise_diagnostics()

    def adopt_inferred_results(self, caller: str) -> bool:
        """Declares the inferred results that a caller took as unknown; returns whether any."""
        changed = False
        for name in self.unknown_results.get(caller, ()):
            result = self.functions[name].ret_struct_info
            if result != OBJECT:
                self.signatures[name] = attrs.evolve(self.signatures[name], ret=result)
                changed = True
        return changed

    def read_function(self, name: str) -> None:
        """Parses the body of one function."""
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
        """Yields functions; callees without declared result come first, except in cycles."""
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
        """Returns the members of `callees` that each function mentions."""
        candidates = set(callees)
        pattern = re.compile(r"\b(\w+)\(" if self.functions_are_bare else r"\.(\w+)")
        first = self.source_map.source.first_line - self.source_map.line_shift
        mentions = {}
        for name, node in self.nodes.items():
            lines = self.source_map.lines[
                node.lineno - first + 1 : (node.end_lineno or 0) - first + 1
            ]
            mentioned = pattern.findall("\n".join(lines))
            mentions[name] = [callee for callee in dict.fromkeys(mentioned) if callee in candidates]
        return mentions


def _declares_dims(node: ast.Assign) -> bool:
    """Whether a statement declares dims: `n = T.dynamic("n")`, `n, m = ...`."""
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    return all(map(is_declaration, values))


def _bound_names(node: ast.stmt) -> list[ast.Name]:
    targets: list[ast.expr] = getattr(node, "targets", [])
    return [n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def _is_ignored(node: ast.stmt) -> bool:
    """Whether a statement is a docstring or the `__main__` block of a script."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def _name_for(node: ast.expr) -> str:
    """Returns a name for a captured function: the last name or key in the text."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if not iskeyword(name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))) if name.isidentifier():
            return name if not iskeyword(name) else "function"
    return "function"
