"""What the reader of a kernel knows at a point: the names in sight, and which of them are bound."""

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
from structir.printer.parser.context import Context
from structir.printer.parser.values import construct_name
from structir.printer.syntax import KERNEL_NAMES, RESERVED

LAUNCH_HINT = 'threads are there under @I.kernel(target="cuda", blocks="n // 256 + 1", threads=256)'
NEVER: frozenset[str] | None = None  # what is bound where nothing runs any more


class KernelScope:
    """The state of reading one kernel."""

    def __init__(self, context: Context, name: str) -> None:
        self.context = context
        self.name = name
        self.vars: dict[str, Var] = {}  # parameters and scratch arrays
        self.locals: dict[str, Local] = {}  # one number each, of one dtype
        self.bound: frozenset[str] | None = frozenset()  # on every way that leads here
        self.loop_vars: list[str] = []  # the variables of the loops around
        self.depth = 0  # of loops
        self.is_partitioned = False  # whether it runs in parts
        self.has_threads = False  # whether many threads take the statements

    # ---- errors

    def span(self, node: ast.AST) -> Span:
        """Where a node stands."""
        return self.context.source_map.span(node)

    def wrong(
        self, node: ast.AST, message: str, hint: str, *mentioned_names: str, code: str = "E0110"
    ) -> ParseError:
        """Returns an error located at a node, with the StructInfo of the arrays it mentions."""
        diagnostic = Diagnostic(message, self.span(node), self.name, hint=hint, code=code)
        names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        mentioned = [n for n in dict.fromkeys([*names, *mentioned_names]) if n in self.vars]
        for name in mentioned or list(self.vars)[:1]:
            var = self.vars[name]
            diagnostic = diagnostic.note(f"{name}: {var.struct_info}", var.span)
        return ParseError(diagnostic)

    def unsupported(self, node: ast.AST, hint: str) -> ParseError:
        """The error for Python that kernels do not have."""
        return self.wrong(
            node, f"Python's {word_of(node)} is not part of kernels", hint, code="E0103"
        )

    # ---- names

    def dim(self, name: str) -> Poly | None:
        """The symbolic dim of a name."""
        found = self.context.names.get(name)
        return found if type(found) is Poly else None

    def array(self, node: ast.expr) -> Var:
        """The array that a name means."""
        if not isinstance(node, ast.Name):
            raise self.unsupported(node, "only arrays by their names are indexed: x[i, j]")
        found = self.vars.get(node.id)
        if found is None or not isinstance(found.struct_info, TensorStructInfo):
            known = node.id in self.locals or self.dim(node.id) is not None or found is not None
            what = f"{node.id} is a number, not an array" if known else f"{node.id} is not defined"
            raise self.wrong(node, what, self.suggest(node.id))
        if node.id not in (self.bound or ()):
            raise self.unbound(node)
        return found

    def near(self, name: str) -> str:
        """What else a name might have meant."""
        known = [*self.vars, *self.locals]
        found = difflib.get_close_matches(name, known, 2)
        if found:
            return f"did you mean {' or '.join(found)}?"
        return "a kernel sees its parameters, their symbolic dims, and what it binds itself"

    def unbound(self, node: ast.Name) -> ParseError:
        """The error for a name that may have no value yet."""
        hint = f"bind {node.id} before the loop or on both sides of the branch"
        return self.wrong(node, f"{node.id} is not bound on every way that leads here", hint)

    def may_bind(self, node: ast.Name) -> None:
        """Refuse names that mean something else."""
        name = node.id
        if name in self.loop_vars:
            hint = "give the value another name; a while loop counts as it likes"
            raise self.wrong(node, f"{name} is counted by the loop around", hint)
        if name in self.vars:
            what = "a parameter" if name not in self.locals else "an array"
            hint = f"write to elements: {name}[i] = ..., or use another name"
            raise self.wrong(node, f"{name} is {what} and cannot be bound again", hint)
        if name in RESERVED or name in KERNEL_NAMES or self.dim(name) is not None:
            raise self.wrong(node, f"{name} has a meaning already", "use another name")

    def bind(self, node: ast.Name, dtype: str) -> Local:
        """The number of a name, which has one dtype in the whole kernel."""
        local = self.locals.get(node.id)
        if local is None:
            local = self.locals[node.id] = Local(node.id, dtype, self.span(node))
        if local.dtype != dtype:
            message = f"{node.id} is {local.dtype}, and cannot become {dtype}"
            raise self.wrong(
                node, message, f"convert it, T.{local.dtype}(...), or use another name"
            )
        self.mark_bound(node.id)
        return local

    def mark_bound(self, *names: str) -> None:
        """From here on these names have values."""
        self.bound = (self.bound or frozenset()) | set(names)

    def join_branches(self, ends: Iterable[frozenset[str] | None]) -> None:
        """After several ways, what is bound at the end of each that comes here."""
        reaching = [end for end in ends if end is not None]
        self.bound = frozenset.intersection(*reaching) if reaching else NEVER

    def dtypes(self, *scalars: Scalar) -> str:
        """The dtypes of some numbers, for messages."""
        names: list[Any] = [s.dtype for s in scalars]
        return " and ".join(f"a number ({n})" if n in ("int", "float") else n for n in names)
