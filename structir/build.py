"""BlockBuilder: builds programs in A-normal form and infers each StructInfo on emission."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from structir.analysis.calls import are_disjoint
from structir.analysis.constant_values import ConstantValues
from structir.analysis.deduction import (
    annotate,
    deduce,
    leave_dataflow,
    leave_scope,
    result_info,
)
from structir.analysis.purity import is_pure_value
from structir.analysis.substitution import Substitution
from structir.counterparts import WithCounterparts
from structir.errors import (
    Diagnostic,
    DiagnosticError,
    Span,
    StructInfoError,
    StructIRError,
    raising_span,
)
from structir.ir.binding_dims import bound_dims
from structir.ir.dim_text import one_message
from structir.ir.dims import Sym
from structir.ir.expr import (
    ATOMS,
    NO_ATTRS,
    Attrs,
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    as_expr,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule, as_module
from structir.ir.node import Node, rebuild, replace
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo
from structir.lazy import lazy_module

rules = lazy_module("structir.analysis.well_formed")
Value = Expr | Sequence[Any] | dict[str, Any]  # tuples, lists and dicts are tuples of the program


class BuilderScope:
    """A sequence under construction: finished blocks, the open block, and names in scope."""

    def __init__(self, outer: BuilderScope | None = None) -> None:
        self.blocks: list[BindingBlock] = []
        self.bindings: list[Binding] = []
        self.in_dataflow = False
        self.own_symbols: set[Sym] = set()
        self.outer_symbols: frozenset[Sym] | set[Sym] = outer.symbols() if outer else frozenset()
        self.variables: set[Var] = set()

    def symbols(self) -> set[Sym]:
        """Returns the symbolic variables in scope."""
        return self.own_symbols | self.outer_symbols

    def define(self, info: StructInfo) -> None:
        """Adds the symbolic variables that the StructInfo of a match_cast binds."""
        self.own_symbols |= bound_dims([info]) - self.outer_symbols

    def add(self, binding: Binding) -> None:
        """Appends one binding to the open block."""
        self.bindings.append(binding)

    def close_block(self) -> None:
        """Closes the open block unless it is empty; merges consecutive plain blocks."""
        if self.bindings:
            kind = DataflowBlock if self.in_dataflow else BindingBlock
            before: tuple[Binding, ...] = ()
            if self.blocks and kind is BindingBlock and type(self.blocks[-1]) is BindingBlock:
                before = self.blocks.pop().bindings
            self.blocks.append(kind((*before, *self.bindings)))
            self.bindings = []
        self.in_dataflow = False

    def sequence(self, body: Expr, span: Span | None = None) -> SeqExpr:
        """Returns the finished sequence; its StructInfo drops dims bound inside."""
        self.close_block()
        bound = {b.var for block in self.blocks for b in block.bindings}
        info = leave_scope(deduce(body), self.own_symbols, bound)
        return SeqExpr(tuple(self.blocks), body, info, span)


def _cast_error(value: Expr, info: StructInfo, span: Span | None) -> StructInfoError:
    """Returns the error of a cast that no value satisfies."""
    message = f"StructInfo mismatch: expected {info}, found {value.struct_info}"
    return StructInfoError(
        Diagnostic(message, span, "match_cast", code="E0206")
        .note(f"value: {value.struct_info}", value.span)
        .hinted("convert the value with `R.astype` or `R.reshape`")
    )


@contextmanager
def _located(function: str) -> Iterator[None]:
    """Locates errors without source location at the user's Python code that builds a function."""
    try:
        yield
    except DiagnosticError as error:
        span = raising_span(error)
        if span is None or any(d.span is not None for d in error.diagnostics):
            raise
        where = f"in the function {function}"
        located = type(error)([d.at(span).note(where) for d in error.diagnostics])
        raise located.with_traceback(error.__traceback__) from None


class BlockBuilder(WithCounterparts):
    """Builds modules and functions.

        bb = BlockBuilder()
        with bb.function("main", [x, w]):
            with bb.dataflow():
                y = bb.emit(R.matmul(x, w))
                out = bb.emit_output(y)
            bb.emit_func_output(out)
        mod = bb.get()

    Nested expressions are bound to fresh variables. The StructInfo of each value is inferred on
    emission; an invalid value raises StructInfoError.
    """

    def __init__(self, module: IRModule | None = None) -> None:
        self.functions: dict[str, Node] = dict(module.functions) if module else {}
        self.attrs: Attrs = module.attrs if module else NO_ATTRS
        self.scopes: list[BuilderScope] = []
        self._names: list[dict[str, int]] = []
        self._constants = ConstantValues()
        self._results: list[tuple[Expr, StructInfo | None] | None] = []

    # ---- functions

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[Var] = (),
        *,
        ret: StructInfo | None = None,
        pure: bool = True,
        attrs: Attrs | None = None,
    ) -> Iterator[None]:
        """Opens a function of the module; its last call is `emit_func_output`."""
        with self._open(params), _located(name):
            yield
            self.functions[name] = self._close(params, ret, pure, attrs, name)

    @contextmanager
    def _open(self, params: Sequence[Var]) -> Iterator[None]:
        for param in params:
            if not (isinstance(param, Var) and isinstance(param.struct_info, StructInfo)):
                raise StructIRError(f"parameter: expected a Var with StructInfo, found {param!r}")
        scope = BuilderScope(self.scopes[-1] if self.scopes else None)
        scope.outer_symbols |= bound_dims([param.struct_info for param in params])
        self.scopes.append(scope)
        self._names.append(dict.fromkeys((p.name for p in params), 0))
        self._results.append(None)
        try:
            yield
        finally:
            self.scopes.pop()
            self._names.pop()
            self._results.pop()

    def _close(
        self,
        params: Sequence[Var],
        declared: StructInfo | None,
        pure: bool,
        attrs: Attrs | None,
        name: str,
    ) -> Function:
        result = self._results[-1]
        if result is None:
            raise StructIRError(f"{name} has no result; help: `bb.emit_func_output(value)`")
        scope = self.scopes[-1]
        value = result[0]
        info = result_info(deduce(value), params, scope.outer_symbols)
        declared = declared if declared is not None else result[1]
        if declared is not None:
            info = annotate(declared, info, f"the result of {name}", value.span)
        return Function(tuple(params), scope.sequence(value), info, pure, attrs or NO_ATTRS)

    def emit_func_output(self, output: Value, ret: StructInfo | None = None) -> None:
        """Sets the result of the open function: a value, or a tuple of values, also nested."""
        scope = self._scope()
        if self._results[-1] is not None:
            raise StructIRError("emit_func_output: the open function already has a result")
        scope.close_block()
        self._results[-1] = (self.atom(output), ret)

    def local_function(
        self, params: Sequence[Var], body: Callable[[], Expr], name: str = "closure"
    ) -> Var:
        """Binds a nested function to a variable; `body` returns its result."""
        with self._open(params):
            self.emit_func_output(body())
            function = self._close(params, None, True, None, name)
        return self.emit(function, name)

    def get(self) -> IRModule:
        """Returns the module of all functions built so far.

        Raises WellFormedError if one uses a variable, a dim or a function that is not in scope.
        """
        module = IRModule(dict(self.functions), self.attrs)
        rules.check_well_formed(module, deduced=True)
        return module

    def finished(self, name: str) -> Function:
        """Returns one function built so far, unchecked: its callees may be missing."""
        return self.functions[name]  # type: ignore[return-value]

    def global_var(self, name: str) -> GlobalVar:
        """Returns a reference to a function of the module, with StructInfo if already built."""
        function = self.functions.get(name)
        info = function.struct_info if isinstance(function, Function | Kernel) else None
        return GlobalVar(name, info)

    def kernel(self, kernel: Kernel, name: str | None = None) -> GlobalVar:
        """Adds a kernel to the module; returns the reference for `R.call_kernel`."""
        self.functions[name or kernel.name] = kernel
        return self.global_var(name or kernel.name)

    # ---- bindings

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """Opens a dataflow block: only values emitted with `emit_output` are visible after it."""
        scope = self._scope()
        scope.close_block()
        scope.in_dataflow = True
        yield
        scope.close_block()

    def emit(
        self,
        value: Value,
        name: str | None = None,
        *,
        annotation: StructInfo | None = None,
        span: Span | None = None,
    ) -> Var:
        """Binds a value to a new variable; nested expressions are bound first."""
        kind = DataflowVar if self._scope().in_dataflow else Var
        return self._bind(kind, self.normalise(value), name, annotation, span)

    def emit_output(self, value: Value, name: str | None = None) -> Var:
        """Binds a value of a dataflow block to a variable that is visible after the block."""
        if not self._scope().in_dataflow:
            raise StructIRError("emit_output: no dataflow block is open; help: `bb.emit(value)`")
        return self._bind(Var, self.normalise(value), name or self._fresh("gv"), None, None)

    def match_cast(
        self, value: Value, info: StructInfo, name: str | None = None, span: Span | None = None
    ) -> Var:
        """Binds a value with a StructInfo that is checked at run time; binds new dims."""
        scope = self._scope()
        value = self.atom(value)
        if are_disjoint(info, deduce(value)):
            with one_message(value.struct_info):
                raise _cast_error(value, info, span)
        scope.define(info)
        kind = DataflowVar if scope.in_dataflow else Var
        var = kind(name or self._fresh("lv" if scope.in_dataflow else "gv"), info, span)
        scope.add(MatchCast(var, value, info, span))
        self._constants.bind(var, value)
        return var

    def take(self, binding: Binding) -> None:
        """Appends a finished binding unchanged: no inference, its variable keeps its name."""
        scope = self._scope()
        if isinstance(binding, MatchCast):
            scope.define(binding.struct_info)
        self._names[-1].setdefault(binding.var.name, 0)
        scope.add(binding)

    def if_else(
        self,
        cond: Expr,
        then: Callable[[], Expr],
        otherwise: Callable[[], Expr],
        name: str | None = None,
    ) -> Var:
        """Binds the value of a conditional; each function emits a branch and returns its value."""
        if self._scope().in_dataflow:
            raise StructInfoError(
                Diagnostic(
                    "`if` is not allowed in a dataflow block", cond.span, code="E0117"
                ).hinted("end the dataflow block before the `if`")
            )
        cond = self.atom(cond)
        branches = [self._branch(side) for side in (then, otherwise)]
        return self.emit(If(cond, branches[0], branches[1]), name)

    def _branch(self, side: Callable[[], Expr]) -> SeqExpr:
        self.scopes.append(BuilderScope(self.scopes[-1]))
        try:
            return self.scopes[-1].sequence(self.atom(side()))
        finally:
            self.scopes.pop()

    def _bind(
        self,
        kind: type[Var],
        value: Expr,
        name: str | None,
        annotation: StructInfo | None,
        span: Span | None,
    ) -> Var:
        scope = self.scopes[-1]
        info = value.struct_info
        if annotation is not None:
            info = annotate(annotation, info, name or "the value", span, value)
        if name is None:
            name = self._fresh("lv" if scope.in_dataflow else "gv")
        if kind is Var and scope.in_dataflow:
            info = leave_dataflow(info)
        var = kind(name, info, span)
        known = self._constants
        if type(value) is not Call:
            known.bind(var, value)
        elif known.values and (exact := known.in_call(value)) is not value:
            deduce(exact)  # checks constant indices
        scope.bindings.append(VarBinding(var, value, span))
        return var

    def _scope(self) -> BuilderScope:
        if not self.scopes:
            raise StructIRError("no function is open; help: `with bb.function(name, params):`")
        return self.scopes[-1]

    def _fresh(self, stem: str) -> str:
        names = self._names[-1]
        count = names.get(stem)
        if count is None:
            names[stem] = 1
            return stem
        while (name := f"{stem}{count}") in names:
            count += 1
        names[stem] = count + 1
        names[name] = 1
        return name

    # ---- A-normal form

    def atom(self, value: Value) -> Expr:
        """Returns the value if it is an atom, else a variable bound to it."""
        if isinstance(value, Expr) and type(value) in ATOMS:
            return value
        normal = self.normalise(value)
        return normal if type(normal) is Tuple else self.emit(normal)

    def normalise(self, value: Value) -> Expr:
        """Returns the value over atoms, with StructInfo.

        Nested expressions are bound first, innermost first, and shared ones once.
        """
        if not isinstance(value, Expr):
            if not isinstance(value, tuple | list | dict):
                hint = "help: `R.const(...)` for a tensor, `(x, y)` for a tuple"
                raise StructIRError(f"expected an expression, found {value!r}; {hint}")
            value = as_expr(value)
        if not ATOMS.issuperset(map(type, _operands(value))):
            value = over_atoms(value, self.emit)
        if type(value) is Call and self.scopes[-1].in_dataflow and not is_pure_value(value):
            raise StructInfoError(
                Diagnostic(
                    "a call with effects is not allowed in a dataflow block",
                    value.span,
                    code="E0117",
                )
                .note(f"call: {value}")
                .hinted("end the dataflow block before the call")
            )
        if value.struct_info is None:
            value = replace(value, struct_info=deduce(value))
        return value


def over_atoms(root: Expr, bind: Callable[[Expr], Expr]) -> Expr:
    """Returns the root over atoms; `bind` returns the variable of a nested expression.

    Iterative, because expressions may be nested thousands of levels deep.
    """
    replacements: dict[int, Expr] = {}
    todo = [root]
    while True:
        value = todo[-1]
        pending = [
            o for o in _operands(value) if type(o) not in ATOMS and id(o) not in replacements
        ]
        if pending:
            todo += pending[::-1]
            continue
        todo.pop()
        flat = rebuild(value, lambda part: replacements.get(id(part), part))
        if value is root:
            return flat
        if id(value) not in replacements:
            replacements[id(value)] = flat if type(flat) is Tuple else bind(flat)


def _operands(value: Expr) -> tuple[Expr, ...]:
    """Returns the expressions that must be atoms in a binding."""
    kind = type(value)
    if kind is Call:
        call: Any = value
        return call.args if type(call.op) in ATOMS or type(call.op) is Op else (*call.args, call.op)
    if kind is Tuple:
        return value.fields  # type: ignore[attr-defined,no-any-return]
    if kind is TupleGetItem:
        return (value.tuple_value,)  # type: ignore[attr-defined]
    return ()


def runnable_module(program: Any, caller: str) -> IRModule:
    """Returns a module unchanged, or a module whose `main` is the function or calls the kernel.

    Raises StructIRError for any other value; `caller` begins the message.
    """
    if not isinstance(program, Kernel):
        return as_module(program, caller)
    copy = Substitution(fresh=True)
    copy.new_dims([param.struct_info for param in program.operands])
    params = [copy.bound(param) for param in program.operands]
    results = tuple([copy.info(param.struct_info) for param in program.results])
    builder = BlockBuilder()
    callee = builder.kernel(program, program.name if program.name != "main" else "main_kernel")
    with builder.function("main", params):
        call = Call(callee, tuple(params), sinfo_args=results, span=program.span)
        builder.emit_func_output(builder.emit(call))
    return builder.get()
