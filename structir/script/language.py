"""The namespace R: ops, StructInfo constructors, leaves and statement forms, with completion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

from structir.errors import StructIRError
from structir.ir.axes import RowVar, UnresolvedAxes
from structir.ir.dims import Poly, as_dim
from structir.ir.expr import Call, Constant, Expr, GlobalVar, PrimValue, Tuple
from structir.ir.op import find_op, registered_ops, similar_op_names
from structir.ir.struct_info import KINDS, StructInfo
from structir.lazy import lazy_module
from structir.printer.constants import python_constant
from structir.printer.parser.extern_calls import packed_call
from structir.printer.parser.kernels import kernel_call
from structir.printer.parser.named_sizes import axis_of
from structir.printer.parser.signatures import build_signature_call as read_signature_call
from structir.printer.parser.tvm_spellings import spelling_of
from structir.printer.syntax import FORM_WORDS, INFO_OF_NAME, LEAF_OF_NAME, SyntaxForm, info_form
from structir.script.source import function_of, is_member, macro_of

symbolic = lazy_module("structir.ir.symbolic")


class Namespace:
    """The ops with a common prefix: `R.nn`, `R.image`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        op = find_op(full)
        if op is not None:
            return op
        if any(op.name.startswith(f"{full}.") for op in registered_ops()):
            return Namespace(f"{full}.")
        names = " or ".join([f"`R.{known}`" for known in similar_op_names(full)])
        hint = f"did you mean {names}?" if names else "list the ops with `dir(R)`"
        raise AttributeError(f"unknown op `R.{full}`; {hint}")

    def __call__(self, *_args: Any, **_names: Any) -> NoReturn:
        name = f"R.{self._prefix}".rstrip(".")
        raise TypeError(f"`{name}` is a namespace, not an op; `dir({name})` lists its ops")

    def __dir__(self) -> list[str]:
        names = [op.name for op in registered_ops() if op.name.startswith(self._prefix)]
        return sorted({name[len(self._prefix) :].partition(".")[0] for name in names})


class FormConstructor:
    """`R.Tensor`, `R.shape`, ...: constructs the node of a syntax form."""

    def __init__(self, form: SyntaxForm) -> None:
        self.form = form
        self.__doc__ = form.node.__doc__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        form = self.form
        if form.rest:
            return form.node(_infos((*args, *keywords.values())), tuple(keywords))
        if len(args) > len(form.fields):
            message = f"R.{form.name}: expected at most {len(form.fields)} arguments"
            raise TypeError(f"{message}, found {len(args)}; help: {form.call_hint}")
        named = {f.keyword: f for f in form.fields} | {f.name: f for f in form.fields}
        unknown = keywords.keys() - named.keys()
        if unknown:
            names = ", ".join(sorted(unknown))
            message = f"R.{form.name}: unexpected keyword argument {names}"
            raise TypeError(f"{message}; help: {form.call_hint}")
        arguments = [*zip(form.fields, args, strict=False)]
        arguments += [(named[keyword], value) for keyword, value in keywords.items()]
        fields = {field.name: _field_value(field.kind, value) for field, value in arguments}
        return form.node(**form.complete(fields))

    def __repr__(self) -> str:
        return f"R.{self.form.name}"


def _field_value(kind: str, value: Any) -> Any:
    """Converts an argument to the value of a field of this kind."""
    match kind:
        case "info":
            return _info(value)
        case "infos":
            return _infos(value)
        case "sizes" | "shape" if isinstance(value, tuple | list):
            axes = tuple([_size(item) for item in value])
            plain = all([type(axis) is int or type(axis) is Poly for axis in axes])
            return axes if plain else UnresolvedAxes(axes)
        case "dim":
            return _size(value)
        case "number" if not isinstance(value, float | bool):
            return _size(value)
    return value


def _info(value: Any) -> StructInfo:
    info: StructInfo = value() if isinstance(value, FormConstructor) else value
    return info


def _infos(value: Any) -> Any:
    if value is None:
        return None
    items = value if isinstance(value, tuple | list) else (value,)
    return tuple([_info(item) for item in items])


def _size(value: Any) -> Any:
    """Converts a size or a row variable; a name in a string denotes the dim of this name."""
    if isinstance(value, str):
        return axis_of(value)
    return value if isinstance(value, RowVar) else as_dim(value)


class Language(Namespace):
    """The members of `R`; an op called in Python returns a call expression."""

    def __init__(self) -> None:
        super().__init__("")
        self._ops: dict[str, Any] = {}  # ops that were looked up

    def __getattr__(self, name: str) -> Any:
        known = self._ops.get(name)
        if known is not None and find_op(name) is known:
            return known
        member = self._member(name)
        if member is not None and member is find_op(name):
            self._ops[name] = member
        return member

    def _member(self, name: str) -> Any:
        form = LEAF_OF_NAME.get(name) or info_form(name)
        if form is not None:
            return FormConstructor(form)
        spelling = spelling_of(f"R.{name}")
        if spelling is not None and spelling.structir.startswith("R."):
            form = info_form(spelling.structir.removeprefix("R."))
            if form is not None:
                return FormConstructor(form)
        if name in FORM_WORDS:
            return _only_in_programs(name)
        return super().__getattr__(name)

    def __dir__(self) -> list[str]:
        infos = {*INFO_OF_NAME, *(KINDS.keys() - {"Func"})}
        return sorted({*super().__dir__(), *infos, *LEAF_OF_NAME, *FORM_WORDS})

    def function(self, function: FunctionType | None = None, **_options: Any) -> Any:
        """Decorates a function of the DSL. In a class, the class is parsed as a whole."""
        if function is None:
            return self.function
        return function if is_member(function) else function_of(function, sys._getframe(1))

    def macro(self, function: FunctionType | None = None, **_options: Any) -> Any:
        """Decorates a helper whose statements are parsed in place of each call."""
        return self.macro if function is None else macro_of(function, sys._getframe(1))

    def const(self, value: Any, dtype: str | None = None) -> Constant:
        """Returns a constant tensor."""
        return python_constant(value, dtype)

    def sig(self, signature: str, function: str = "", dtype: str = "") -> Callable[..., Call]:
        """Declares the shape signature of an opaque call.

        `R.sig("*s a b; *s b c -> *s a c")(x, y)` returns the call.
        """
        arguments = {"signature": signature, "function": function, "dtype": dtype}
        options = {name: value for name, value in arguments.items() if value}
        return lambda *args: read_signature_call(options, args, None)

    def vmap(self, f: Expr, in_axes: Any = 0, out_axes: int = 0) -> Callable[..., Call]:
        """Maps a function of the program over an axis of each operand; None passes one whole.

        `R.vmap(cls.f, in_axes=(0, None))(x, w)` returns the call.
        """
        return lambda *args: super(Language, self).__getattr__("vmap")(
            f, *args, in_axes=in_axes, out_axes=out_axes
        )

    def row(self, name: str) -> RowVar:
        """Returns a new row variable: `s = R.row("s")`, then `R.Tensor((*s, n))`."""
        return RowVar(name)

    def dims(self, names: str) -> Any:
        """Returns new symbolic dims: `m, k = R.dims("m k")`, or one dim for a single name."""
        dims = [symbolic.SymVar(name) for name in names.replace(",", " ").split()]
        return dims[0] if len(dims) == 1 else dims

    def tuple(self, *fields: Expr, **named: Expr) -> Tuple:
        """Returns a tuple expression; keywords name its fields."""
        return Tuple((*fields, *named.values()), tuple(named))

    def call_packed(self, name: str, *args: Expr, sinfo_args: Any = (), **options: Any) -> Call:
        """Returns a call of an external function that may have effects.

        `index` is its index signature and `cost` its cost per point, if it declares them.
        """
        return packed_call(name, args, _infos(sinfo_args), False, None, options)

    def call_pure_packed(
        self, name: str, *args: Expr, sinfo_args: Any = (), **options: Any
    ) -> Call:
        """Returns a call of an external function without effects.

        `index` is its index signature and `cost` its cost per point, if it declares them.
        """
        return packed_call(name, args, _infos(sinfo_args), True, None, options)

    def call_kernel(self, kernel: GlobalVar, args: Any, out_sinfo: Any) -> Call:
        """Returns a call of a kernel; `out_sinfo` is the StructInfo of each result."""
        arguments = args if isinstance(args, tuple | list) else (args,)
        operands = [arg if isinstance(arg, Expr) else PrimValue(arg) for arg in arguments]
        return kernel_call(kernel, tuple(operands), _infos(out_sinfo))


def _only_in_programs(name: str) -> Callable[..., Any]:
    def reject_call(*_args: Any, **_keywords: Any) -> Any:
        raise StructIRError(f"R.{name} is only allowed inside functions decorated with @R.function")

    return reject_call


R = Language()
