"""The namespace R: ops, struct infos, leaves and the words of the language, completed by TAB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import StructIRError
from structir.ir.dims import as_dim
from structir.ir.expr import Call, Constant, Expr, Tuple
from structir.ir.op import find_op, registered_ops
from structir.ir.struct_info import KINDS, StructInfo
from structir.printer.calls import packed_call
from structir.printer.constants import inline_constant
from structir.printer.reader import parse_struct_info
from structir.printer.syntax import FORM_WORDS, INFO_OF_NAME, LEAF_OF_NAME, Form, info_form
from structir.script.source import function_of, is_member


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

    def __init__(self, form: Form) -> None:
        self.form = form
        self.__doc__ = form.node.__doc__

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        form = self.form
        if form.rest:
            return form.node(tuple([_info(item) for item in args]))
        fields = {f.name: _FIELDS[f.kind](a) for f, a in zip(form.fields, args, strict=False)}
        named = {f.keyword: f for f in form.fields} | {f.name: f for f in form.fields}
        for keyword, value in keywords.items():
            if keyword not in named:
                raise TypeError(f"R.{form.name} has no {keyword}; it has {', '.join(named)}")
            fields[named[keyword].name] = _FIELDS[named[keyword].kind](value)
        return form.node(**form.complete(fields))

    def __repr__(self) -> str:
        return f"R.{self.form.name}"


def _info(value: Any) -> StructInfo:
    made: StructInfo = value() if isinstance(value, FormMaker) else value
    return made


def _infos(value: Any) -> Any:
    if value is None:
        return None
    items = value if isinstance(value, tuple | list) else (value,)
    return tuple([_info(item) for item in items])


def _size(value: Any) -> Any:
    """A size; a string is read as one, its names becoming new symbolic dims."""
    if isinstance(value, str):
        return parse_struct_info(f"R.Shape([{value}])").dims[0]  # type: ignore[attr-defined]
    return as_dim(value)


def _sizes(value: Any) -> Any:
    return tuple([_size(item) for item in value]) if isinstance(value, tuple | list) else value


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "dim": _size,
    "number": lambda value: value if isinstance(value, float | bool) else _size(value),
    "sizes": _sizes,
    "shape": _sizes,
    "info": _info,
    "infos": _infos,
    "static": lambda value: value,
}


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

    def tuple(self, *fields: Expr) -> Tuple:
        """Several values as one."""
        return Tuple(fields)

    def call_packed(self, name: str, *args: Expr, sinfo_args: Any = ()) -> Call:
        """A call of a function from outside of the program."""
        return packed_call(name, args, _infos(sinfo_args), False)

    def call_pure_packed(self, name: str, *args: Expr, sinfo_args: Any = ()) -> Call:
        """The same, of a function without effects."""
        return packed_call(name, args, _infos(sinfo_args), True)


def _only_read(name: str) -> Callable[..., Any]:
    def stands_in_programs(*_args: Any, **_keywords: Any) -> Any:
        raise StructIRError(f"R.{name} stands in functions under @R.function, which are only read")

    return stands_in_programs


R = Language()
