"""The namespace R: ops, struct infos, leaves and the words of the language, completed by TAB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import StructIRError
from structir.ir.axes import RowVar, UnresolvedAxes
from structir.ir.dims import Poly, as_dim
from structir.ir.expr import Call, Constant, Expr, GlobalVar, PrimValue, Tuple
from structir.ir.op import find_op, registered_ops
from structir.ir.struct_info import KINDS, StructInfo
from structir.lazy import lazy_module
from structir.printer.constants import inline_constant
from structir.printer.parser.calls import packed_call
from structir.printer.parser.kernels import kernel_call
from structir.printer.parser.parser import parse_struct_info
from structir.printer.parser.signatures import build_signature_call as read_signature_call
from structir.printer.syntax import FORM_WORDS, INFO_OF_NAME, LEAF_OF_NAME, SyntaxForm, info_form
from structir.script.source import function_of, is_member

symbolic = lazy_module("structir.ir.symbolic")


class Namespace:
    """Ops whose names begin alike: `R.nn`, `R.image`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        found = find_op(full)
        if found is not None:
            return found
        if any(op.name.startswith(f"{full}.") for op in registered_ops()):
            return Namespace(f"{full}.")
        raise AttributeError(f"there is no op R.{full}")

    def __dir__(self) -> list[str]:
        inside = [op.name for op in registered_ops() if op.name.startswith(self._prefix)]
        return sorted({name[len(self._prefix) :].partition(".")[0] for name in inside})


class FormMaker:
    """`R.Tensor`, `R.shape`, ...: makes the node of a form; a bare kind is an info, too."""

    def __init__(self, form: SyntaxForm) -> None:
        self.form = form
        self.__doc__ = form.node.__doc__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        form = self.form
        if form.rest:
            return form.node(_infos(args))
        if len(args) > len(form.fields):
            raise TypeError(f"R.{form.name} takes {len(form.fields)} arguments at most")
        named = {f.keyword: f for f in form.fields} | {f.name: f for f in form.fields}
        unknown = keywords.keys() - named.keys()
        if unknown:
            names = ", ".join(sorted(unknown))
            raise TypeError(f"R.{form.name} has no {names}; it has {', '.join(named)}")
        given = [*zip(form.fields, args, strict=False)]
        given += [(named[keyword], value) for keyword, value in keywords.items()]
        symbols: dict[str, Any] = {}  # a name means one symbolic dim in all strings of a call
        fields = {field.name: _taken(field.kind, value, symbols) for field, value in given}
        return form.node(**form.complete(fields))

    def __repr__(self) -> str:
        return f"R.{self.form.name}"


def _taken(kind: str, value: Any, symbols: dict[str, Any]) -> Any:
    """What a field of this kind holds of a value."""
    match kind:
        case "info":
            return _info(value)
        case "infos":
            return _infos(value)
        case "sizes" | "shape" if isinstance(value, tuple | list):
            axes = tuple([_size(item, symbols) for item in value])
            plain = all([type(axis) is int or type(axis) is Poly for axis in axes])
            return axes if plain else UnresolvedAxes(axes)
        case "dim":
            return _size(value, symbols)
        case "number" if not isinstance(value, float | bool):
            return _size(value, symbols)
    return value


def _info(value: Any) -> StructInfo:
    result: StructInfo = value() if isinstance(value, FormMaker) else value
    return result


def _infos(value: Any) -> Any:
    if value is None:
        return None
    items = value if isinstance(value, tuple | list) else (value,)
    return tuple([_info(item) for item in items])


def _size(value: Any, symbols: dict[str, Any]) -> Any:
    """A size or a row; a string is read as one, its names becoming new symbolic dims."""
    if isinstance(value, str):
        info = parse_struct_info(f"R.Tensor(({value!r},))", symbols)
        return (info.axes or info.dims)[0]  # type: ignore[attr-defined]
    return value if isinstance(value, RowVar) else as_dim(value)


class Language(Namespace):
    """Everything that is written after `R.`; called outside of a program, an op makes a call."""

    def __init__(self) -> None:
        super().__init__("")

    def __getattr__(self, name: str) -> Any:
        form = LEAF_OF_NAME.get(name) or info_form(name)
        if form is not None:
            return FormMaker(form)
        if name in FORM_WORDS:
            return _only_read(name)
        return super().__getattr__(name)

    def __dir__(self) -> list[str]:
        kinds = {*INFO_OF_NAME, *(KINDS.keys() - {"Func"})}
        return sorted({*super().__dir__(), *kinds, *LEAF_OF_NAME, *FORM_WORDS})

    def function(self, function: Callable[..., Any] | None = None, **_options: Any) -> Any:
        """Decorate a function of the language. In a class, the class is read as a whole."""
        if function is None:
            return self.function
        return function if is_member(function) else function_of(function)

    def const(self, value: Any, dtype: str | None = None) -> Constant:
        """A tensor known at compile time."""
        return inline_constant(value, dtype)

    def sig(self, signature: str, function: str = "", dtype: str = "") -> Callable[..., Call]:
        """An opaque call whose sizes are stated: `R.sig("*s a b; *s b c -> *s a c")(x, y)`."""
        given = {"signature": signature, "function": function, "dtype": dtype}
        options = {name: value for name, value in given.items() if value}
        return lambda *args: read_signature_call(options, args, None)

    def row(self, name: str) -> RowVar:
        """A new row variable, for signatures: `s = R.row("s")`, then `R.Tensor((*s, n))`."""
        return RowVar(name)

    def dims(self, names: str) -> Any:
        """New symbolic dims by name: `m, k = R.dims("m k")`; one alone for a single name."""
        result = [symbolic.SymVar(name) for name in names.replace(",", " ").split()]
        return result[0] if len(result) == 1 else result

    def tuple(self, *fields: Expr) -> Tuple:
        """Several values as one."""
        return Tuple(fields)

    def call_packed(self, name: str, *args: Expr, sinfo_args: Any = ()) -> Call:
        """A call of a function from outside of the program."""
        return packed_call(name, args, _infos(sinfo_args), False)

    def call_pure_packed(self, name: str, *args: Expr, sinfo_args: Any = ()) -> Call:
        """The same, of a function without effects."""
        return packed_call(name, args, _infos(sinfo_args), True)

    def call_kernel(self, kernel: GlobalVar, args: Any, out_sinfo: Any) -> Call:
        """A call of a kernel of the module, on operands, with results of these infos."""
        given = args if isinstance(args, tuple | list) else (args,)
        operands = [arg if isinstance(arg, Expr) else PrimValue(arg) for arg in given]
        return kernel_call(kernel, tuple(operands), _infos(out_sinfo))


def _only_read(name: str) -> Callable[..., Any]:
    def stands_in_programs(*_args: Any, **_keywords: Any) -> Any:
        raise StructIRError(f"R.{name} stands in functions under @R.function, which are only read")

    return stands_in_programs


R = Language()
