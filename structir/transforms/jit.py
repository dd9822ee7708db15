"""`structir.jit`: compiles a function on its first call; and transforms that call it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import attrs

from structir.analysis.donation import DONATED
from structir.errors import Diagnostic, DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.lazy import lazy_module
from structir.system.locks import cached_property
from structir.tracing.context import is_tracing
from structir.tracing.size import UnknownSizeError
from structir.tracing.trees import TreeStructure, flatten
from structir.transforms import functions
from structir.transforms.selection import kept_static, same_static, selected
from structir.transforms.trace import flat_module, traced_module

np = lazy_module("numpy")
compiler = lazy_module("structir.targets.compile")
ALWAYS_FIXED = (0, 1)  # sizes that broadcast or are empty
Shape = tuple[tuple[int, ...], str]


@attrs.frozen
class Specialisation:
    """One program, compiled when it is first run, and the shapes that it accepts.

    Sizes with the same symbol are equal; the others are fixed.
    """

    static: Any  # the structure of the arguments, and the static ones
    patterns: tuple[tuple[tuple[Any, ...], str], ...]  # an int is fixed, a string is a symbol
    options: dict[str, Any]  # of the compiler
    result: TreeStructure
    module: IRModule
    shapes: tuple[Shape, ...]  # of the first call

    @cached_property
    def run(self) -> Callable[..., Any]:
        """The compiled program."""
        return compiler.compile(self.module, **self.options)["main"]

    def accepts(self, static: Any, shapes: Sequence[Shape]) -> bool:
        """Whether arguments of these shapes fit."""
        if not same_static(static, self.static):
            return False
        values: dict[str, int] = {}
        for (sizes, dtype), (pattern, expected) in zip(shapes, self.patterns, strict=True):
            if dtype != expected or len(sizes) != len(pattern):
                return False
            for value, axis in zip(sizes, pattern, strict=True):
                if value != (axis if type(axis) is int else values.setdefault(axis, value)):
                    return False
        return True


class JitFunction:
    """A function that is traced and compiled on its first call.

    Programs are cached by StructInfo, not by shape: equal sizes of the first call share a symbolic
    dim, and the sizes 0 and 1 are fixed. Sizes of arrays in containers, such as parameters, are
    fixed until a call changes them. Arguments that do not fit are traced again. A size whose value
    the Python code needs (`range(x.shape[0])`) is fixed.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: Sequence[int] = (),
        static_argnames: Sequence[str] = (),
        donate_argnums: Sequence[int] = (),
        donate_argnames: Sequence[str] = (),
        **options: Any,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options = function, options
        self.static = selected(function, "static_", static_argnums, static_argnames)
        self.donated = selected(function, "donate_", donate_argnums, donate_argnames)
        self.specialisations: list[Specialisation] = []

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"<JitFunction {name}: traced {len(self.specialisations)} times>"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if is_tracing():
            return self.function(*args, **keywords)
        leaves, static, structures = self._flattened(args, keywords)
        chosen = self._specialised(leaves, static, structures)
        if self.donated:
            return chosen.result.unflatten(chosen.run(*leaves))
        values = iter(leaves)
        arguments = [_nested(structure, values) for structure in structures]
        return chosen.result.unflatten(_leaves(chosen.result, chosen.run(*arguments)))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def trace(self, *args: Any, **keywords: Any) -> IRModule:
        """Returns the module for these arguments, whose function is `main`."""
        return self._specialised(*self._flattened(args, keywords)).module

    def _flattened(
        self, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[list[Any], Any, list[TreeStructure]]:
        """Returns the arrays, the static arguments, and the structures of the other arguments."""
        leaves: list[Any] = []
        structures: list[TreeStructure] = []
        static: list[Any] = []
        for k, value in [*enumerate(args), *sorted(keywords.items())]:
            if k in self.static or callable(value):
                static.append((k, value))
                continue
            parts, structure = flatten(value)
            leaves += [_array(part) for part in parts]
            structures.append(structure)
            static.append((k, structure))
        return leaves, tuple(static), structures

    def _specialised(
        self, leaves: list[Any], static: Any, structures: list[TreeStructure]
    ) -> Specialisation:
        shapes = [(leaf.shape, _dtype_name(leaf.dtype)) for leaf in leaves]
        for known in self.specialisations:
            if known.accepts(static, shapes):
                return known
        new = self._new(shapes, static, structures)
        self.specialisations.append(new)
        return new

    def _new(
        self, shapes: list[Shape], static: Any, structures: list[TreeStructure]
    ) -> Specialisation:
        def attempt(fixed: set[int]) -> tuple[Any, Any]:
            patterns = _patterns(shapes, fixed)
            return patterns, self._traced(patterns, static, structures)

        parameters = self._sizes_of_parameters(shapes, static, structures)
        patterns, (module, result) = _with_fewest_fixed(attempt, shapes, parameters)
        if self.donated:
            module = self._donating(module, static)
        kept = tuple([(key, kept_static(value)) for key, value in static])
        return Specialisation(kept, patterns, self.options, result, module, tuple(shapes))

    def _sizes_of_parameters(
        self, shapes: list[Shape], static: Any, structures: list[TreeStructure]
    ) -> set[int]:
        """Returns the sizes of arrays in containers that are those of all calls before.

        Containers hold parameters, whose sizes rarely change; kernels of known sizes are faster.
        """
        inside = [s.kind is not None for s in structures for _ in range(s.leaves)]
        earlier = [s.shapes for s in self.specialisations if same_static(s.static, static)]
        fixed: set[int] = set()
        for k, (sizes, _) in enumerate(shapes):
            before = [other[k][0] for other in earlier if inside[k]]
            for axis, value in enumerate(sizes if inside[k] else ()):
                if all([len(b) == len(sizes) and b[axis] == value for b in before]):
                    fixed.add(value)
        return fixed

    def _traced(
        self, patterns: Any, static: Any, structures: list[TreeStructure]
    ) -> tuple[IRModule, TreeStructure]:
        symbols: dict[str, Dim] = {}
        leaf_infos = [_info(pattern, symbols) for pattern in patterns]
        infos = iter(leaf_infos)
        nested = [functions.nested_info(structure, infos) for structure in structures]

        def function(*values: Any) -> Any:
            rest = iter(values)
            positional: list[Any] = []
            named: dict[str, Any] = {}
            for key, value in static:
                actual = next(rest) if isinstance(value, TreeStructure) else value
                if isinstance(key, str):
                    named[key] = actual
                else:
                    positional.append(actual)
            return self.function(*positional, **named)

        function.__signature__ = _signature(self.function, static)  # type: ignore[attr-defined]
        if self.donated:
            return flat_module(function, leaf_infos, "main", structures, fixes_sizes=True)
        return traced_module(function, nested, "main", structures, fixes_sizes=True)

    def _donating(self, module: IRModule, static: Any) -> IRModule:
        """Returns the module with the donated parameters: each gives its memory to a result."""
        main: Any = module["main"]
        results = list(main.ret_struct_info.fields)
        free, pairs, position = [*range(len(results))], dict[str, int](), 0
        for key, structure in static:
            count = structure.leaves if isinstance(structure, TreeStructure) else 0
            for param in main.params[position : position + count] if key in self.donated else ():
                target = next((k for k in free if results[k] == param.struct_info), None)
                if target is not None:
                    free.remove(target)
                    pairs[param.name] = target
            position += count
        changed = replace(main, attrs={**main.attrs, DONATED: pairs})
        return module.with_functions({**module.functions, "main": changed})


def _signature(function: Callable[..., Any], static: Any) -> Any:
    """Returns a signature with the parameters that are not static."""
    names = functions.parameter_names(function, len(static))
    kept = [
        key if isinstance(key, str) else names[k]
        for k, (key, value) in enumerate(static)
        if isinstance(value, TreeStructure)
    ]
    return functions.signature_of(kept)


def _with_fewest_fixed(
    attempt: Callable[[set[int]], Any], shapes: list[Shape], initial: set[int]
) -> Any:
    """Returns the first trace that succeeds, with as few more fixed sizes as are necessary."""
    sizes = {size for shape, _ in shapes for size in shape if size not in ALWAYS_FIXED}
    fixed = initial & sizes
    while True:
        try:
            return attempt(fixed)
        except UnknownSizeError as error:
            needed = {value for value in sizes - fixed if _symbol(value) in _names(error.symbols)}
            if not needed:
                raise
            fixed |= needed
        except DiagnosticError:
            if fixed == sizes:
                raise
            break
    best = attempt(set(sizes))  # raises the error of the program with known sizes
    for size in sorted(sizes - fixed):  # those that are fixed so far stay fixed
        freed = sizes - {size}
        try:
            best = attempt(freed)
            sizes = freed
        except DiagnosticError:
            continue
    return best


def _names(symbols: Any) -> set[str]:
    return {symbol.name for symbol in symbols}


def _symbol(value: int) -> str:
    return f"n{value}"


def _patterns(shapes: list[Shape], fixed: set[int]) -> tuple[Any, ...]:
    """Returns shapes with a symbol for each size that is not fixed."""
    known = {*fixed, *ALWAYS_FIXED}
    return tuple(
        [
            (tuple([size if size in known else _symbol(size) for size in shape]), dtype)
            for shape, dtype in shapes
        ]
    )


def _info(pattern: tuple[tuple[Any, ...], str], symbols: dict[str, Dim]) -> StructInfo:
    axes, dtype = pattern
    for axis in axes:
        if type(axis) is str and axis not in symbols:
            symbols[axis] = dims.sym(axis)
    return TensorStructInfo(tuple([symbols.get(axis, axis) for axis in axes]), dtype)


@lru_cache(64)
def _dtype_name(dtype: Any) -> str:
    return str(dtype.name)


def _array(value: Any) -> Any:
    """Returns a NumPy array; Python numbers have the default dtypes."""
    if isinstance(value, bool):
        return np.asarray(value)
    if isinstance(value, int | float):
        if isinstance(value, int) and not -(2**31) <= value < 2**31:
            message = f"jit: expected an int of 32 bits, found {value}"
            hint = "name the argument in `static_argnums` or `static_argnames`"
            if -(2**63) <= value < 2**63:
                hint = f"pass it with a dtype: `numpy.int64({value})`"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E1109"))
        return np.asarray(value, "int32" if isinstance(value, int) else "float32")
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype.kind in "OUSMmc":
        message = f"jit: expected arguments of numbers, found {type(value).__name__}"
        message += f" of dtype {array.dtype}"
        hint = "name arguments that are no arrays in `static_argnums` or `static_argnames`"
        if array.dtype.kind == "c":
            hint = "pass `x.real` and `x.imag`"
        elif array.dtype.kind in "Mm":
            hint = 'pass numbers: `x.astype("int64")`'
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E1109"))
    return array


def _nested(structure: TreeStructure, leaves: Any) -> Any:
    """Returns leaves as nested tuples."""
    if structure.kind is None:
        return next(leaves)
    return tuple([_nested(child, leaves) for child in structure.children])


def _leaves(structure: TreeStructure, value: Any) -> list[Any]:
    """Returns the leaves of nested tuples."""
    if structure.kind is None:
        return [value]
    pairs = zip(structure.children, value, strict=True)
    return [leaf for child, item in pairs for leaf in _leaves(child, item)]


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles a function on its first call; usable as a decorator.

    Arguments are arrays, numbers, and containers of these; functions, and those named by
    `static_argnums` or `static_argnames`, are static: each value has its own program. Arguments of
    `donate_argnums` or `donate_argnames` may be overwritten. Other options are those of
    `structir.compile`. The sizes are symbolic where the function permits: see JitFunction.

    Raises DiagnosticError for positions and names that are not those of a parameter.
    """
    if function is None:
        return functools.partial(jit, **options)
    for name in ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames"):
        value: Any = options.get(name)
        is_one = isinstance(value, str) or not isinstance(value, Iterable)
        options[name] = () if value is None else (value,) if is_one else tuple(value)
    return JitFunction(function, **options)


def transformed(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Decorates a transform of `function`: outside of a trace it is compiled on its first call."""

    def decorate(transform: Callable[..., Any]) -> Callable[..., Any]:
        compiled = JitFunction(transform)

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            return (transform if is_tracing() else compiled)(*args, **keywords)

        return call

    return decorate
