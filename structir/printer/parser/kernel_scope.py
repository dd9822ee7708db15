"""State of parsing a kernel: the names in scope, and which of them are bound on every path."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from typing import Any

from structir.errors import Diagnostic, ParseError, Span
from structir.ir.dims import Poly
from structir.ir.expr import Var
from structir.ir.kernel import Local, Scalar
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.context import MISSING, Context
from structir.printer.parser.static_values import static_test
from structir.printer.parser.values import construct_name
from structir.printer.syntax import KERNEL_NAMES, RESERVED

LAUNCH_HINT = '`@I.kernel(target="cuda", blocks="n // 256 + 1", threads=256)`'
IN_KERNEL = "is not supported in @I.kernel"
NEVER: frozenset[str] | None = None  # the bound names of unreachable code


class KernelScope:
    """The state of parsing one kernel."""

    def __init__(self, context: Context, name: str) -> None:
        self.context = context
        self.name = name
        self.vars: dict[str, Var] = {}  # parameters and scratch arrays
        self.locals: dict[str, Local] = {}  # scalars, each of one dtype
        self.literals: set[str] = set()  # scalars whose dtype is that of a literal
        self.bound: frozenset[str] | None = frozenset()  # on every path to this statement
        self.loop_vars: list[str] = []  # of the enclosing loops
        self.depth = 0  # of loops
        self.is_partitioned = False  # whether T.part splits the kernel
        self.has_threads = False  # whether it is a GPU kernel
        self.promotes = False  # whether operands are converted to a common dtype, as in TVM

    # ---- errors

    def span(self, node: ast.AST) -> Span:
        """Returns the span of a node."""
        return self.context.source_map.span(node)

    def wrong(
        self, node: ast.AST, message: str, hint: str, *mentioned_names: str, code: str = "E0110"
    ) -> ParseError:
        """Returns an error located at a node, with the StructInfo of the arrays in it."""
        diagnostic = Diagnostic(message, self.span(node), self.name, hint=hint, code=code)
        names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        mentioned = [n for n in dict.fromkeys([*names, *mentioned_names]) if n in self.vars]
        for name in mentioned or list(self.vars)[:1]:
            var = self.vars[name]
            diagnostic = diagnostic.note(f"{name}: {var.struct_info}", var.span)
        return ParseError(diagnostic)

    def unsupported(self, node: ast.AST, hint: str) -> ParseError:
        """Returns the error for Python that kernels do not support."""
        return self.wrong(node, f"{construct_name(node)} {IN_KERNEL}", hint, code="E0103")

    def already_defined(self, node: ast.AST, name: str) -> ParseError:
        """Returns the error of binding a name of the language or of a dim."""
        hint = f"rename it: `{name}_1`"
        message = f"`{name}` is already defined: it is a dim or a name of the language"
        return self.wrong(node, message, hint, code="E0133")

    # ---- names

    def dim(self, name: str) -> Poly | None:
        """Returns the symbolic dim of a name, or None."""
        value = self.context.names.get(name)
        return value if type(value) is Poly else None

    def names_values(self, node: ast.expr) -> bool:
        """Whether none of the names of an expression is a variable of the kernel."""
        names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        return not any([name in self.vars or name in self.locals for name in names])

    def static_test(self, node: ast.expr) -> Any:
        """Returns whether a condition over values of Python holds; MISSING for any other."""
        return static_test(self.context, node) if self.names_values(node) else MISSING

    def array(self, node: ast.expr) -> Var:
        """Returns the array of a name; raises ParseError for any other expression."""
        if not isinstance(node, ast.Name):
            raise self.unsupported(node, "index an array by its name: `x[i, j]`")
        var = self.vars.get(node.id)
        if var is None or not isinstance(var.struct_info, TensorStructInfo):
            is_scalar = node.id in self.locals or self.dim(node.id) is not None or var is not None
            if not is_scalar:
                raise self.undefined(node)
            hint = f"use the scalar without an index: `{node.id}`"
            raise self.wrong(node, f"expected an array, found the scalar `{node.id}`", hint)
        if node.id not in (self.bound or ()):
            raise self.unbound(node)
        return var

    def undefined(self, node: ast.Name) -> ParseError:
        """Returns the error of a name that is not in scope."""
        return self.wrong(node, f"`{node.id}` is not defined", self.suggest(node.id))

    def suggest(self, name: str) -> str:
        """Returns a hint with the names most like an undefined one."""
        matches = difflib.get_close_matches(name, [*self.vars, *self.locals], 2)
        if matches:
            return f"did you mean {' or '.join(f'`{match}`' for match in matches)}?"
        return f"bind it first: `{name} = ...`, or make it a parameter of the kernel"

    def unbound(self, node: ast.Name) -> ParseError:
        """Returns the error of a name that may be unbound."""
        hint = f"bind it before the loop, or in both branches: `{node.id} = ...`"
        return self.wrong(node, f"`{node.id}` may be unbound here", hint, code="E0134")

    def may_bind(self, node: ast.Name) -> None:
        """Raises ParseError for names that cannot be assigned to."""
        name = node.id
        if name in self.loop_vars:
            hint = f"use another name: `{name}_1 = ...`, or a `while` loop"
            message = f"cannot assign to `{name}`: it is the variable of an enclosing loop"
            raise self.wrong(node, message, hint, code="E0133")
        if name in self.vars:
            kind = "a parameter" if name not in self.locals else "an array"
            index = "i" if getattr(self.vars[name].struct_info, "ndim", None) else "()"
            hint = f"assign to an element: `{name}[{index}] = ...`, or use another name"
            message = f"cannot assign to `{name}`: it is {kind}"
            raise self.wrong(node, message, hint, code="E0133")
        if name in RESERVED or name in KERNEL_NAMES or self.dim(name) is not None:
            raise self.already_defined(node, name)

    def bind(self, node: ast.Name, dtype: str) -> Local:
        """Binds a scalar name, which has one dtype in the whole kernel."""
        local = self.locals.get(node.id)
        if local is None:
            local = self.locals[node.id] = Local(node.id, dtype, self.span(node))
        if local.dtype != dtype:
            message = f"`{node.id}`: expected {local.dtype}, found {dtype}"
            hint = f"convert the value: `T.{local.dtype}(...)`, or use another name"
            raise self.wrong(node, message, hint, code="E0130")
        self.mark_bound(node.id)
        return local

    def mark_bound(self, *names: str) -> None:
        """Records that these names are bound from here on."""
        self.bound = (self.bound or frozenset()) | set(names)

    def join_branches(self, ends: Iterable[frozenset[str] | None]) -> None:
        """Sets the bound names after several paths join: those bound at every reachable end."""
        reaching = [end for end in ends if end is not None]
        self.bound = frozenset.intersection(*reaching) if reaching else NEVER

    def dtypes(self, *scalars: Scalar) -> str:
        """Returns the dtypes of scalars, for messages."""
        names: list[Any] = [s.dtype for s in scalars]
        return " and ".join(f"a number ({n})" if n in ("int", "float") else str(n) for n in names)
