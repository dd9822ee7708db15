"""`structir.compile`: compiles a module for a backend, once for all sizes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, overload

import structir.targets as backends
from structir.analysis.contents import Contents, contents_of
from structir.analysis.derivative_rules import RULES
from structir.analysis.internal_functions import without_derivatives
from structir.analysis.kernel_dtypes import with_kernels_at_dtypes
from structir.analysis.well_formed import check_well_formed
from structir.build import runnable_module
from structir.errors import StructIRError
from structir.interrupts import repeat_dropped_interrupts
from structir.ir.axes import Ragged
from structir.ir.expr import Function, GlobalVar
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.vdevice import VDevice
from structir.lazy import lazy_module
from structir.printer.parser.function_operands import COMBINATOR
from structir.runtime.placement import DEFAULT, resolve_target

if TYPE_CHECKING:
    from structir.runtime.eager import EagerExecutable
    from structir.runtime.executable import Executable
    from structir.targets.cuda.executable import DeviceExecutable

metadata = lazy_module("importlib.metadata")
combinators = lazy_module("structir.batching.combinators")
eager = lazy_module("structir.runtime.eager")
lowering = lazy_module("structir.ragged.module")  # of ragged tensors
ragged_executable = lazy_module("structir.runtime.ragged_executable")

TARGET_MODULE = "target"  # the module of a backend's package that defines `executable`


PLUGINS = "structir.backends"  # entry points of other packages with backends


def targets() -> tuple[str, ...]:
    """Returns the names of the available backends, in this package and in others."""
    others = [plugin.name for plugin in metadata.entry_points(group=PLUGINS)]
    return tuple(dict.fromkeys((*own_targets(), *sorted(others))))


@cache
def own_targets() -> tuple[str, ...]:
    """Returns the names of the subpackages that contain a backend."""
    packages = [f for f in pkgutil.iter_modules(backends.__path__) if f.ispkg]
    names = [
        package.name
        for package in packages
        if any(
            file.name == TARGET_MODULE
            for file in pkgutil.iter_modules([f"{backends.__path__[0]}/{package.name}"])
        )
    ]
    return tuple(sorted(names))


@cache
def _factory_of(target: str) -> Callable[..., Any]:
    if target in own_targets():  # searching the entry points of other packages is slow
        loaded: Any = importlib.import_module(
            f"{backends.__name__}.{target}.{TARGET_MODULE}"
        ).executable
    elif target not in targets():
        raise StructIRError(
            f"unknown backend {target!r}; available: {', '.join(targets())}", code="E1001"
        )
    else:
        (plugin, *_) = metadata.entry_points(group=PLUGINS, name=target)
        loaded = plugin.load()
    factory: Callable[..., Any] = loaded
    return factory


def factory(target: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Returns the function that compiles modules for a backend.

    Raises StructIRError for an unknown backend, an option that it does not have, and a value of a
    flag that is no bool.
    """
    make = _factory_of(target)
    parameters = inspect.signature(make).parameters
    option_names = list(parameters)[1:]
    for name in sorted({*options} - {*option_names}):
        raise StructIRError(
            f"backend {target}: unknown option {name!r}; "
            f"available: {', '.join(option_names) or 'none'}",
        )
    for name, value in options.items():
        if parameters[name].annotation in (bool, "bool") and not isinstance(value, bool):
            message = f"backend {target}: {name}: expected True or False, found {value!r}"
            raise StructIRError(f"{message}; help: `{name}=True`")
    return make


@overload
def compile(
    mod: IRModule | Function,
    target: Literal["cpu"] = "cpu",
    num_threads: int | None = None,
    *,
    exact_division: bool = False,
    fast_math: bool = False,
    eager_first: Literal[False] = False,
) -> Executable: ...
@overload
def compile(
    mod: IRModule | Function,
    target: Literal["cpu"] = "cpu",
    num_threads: int | None = None,
    *,
    exact_division: bool = False,
    fast_math: bool = False,
    eager_first: Literal[True],
) -> EagerExecutable: ...
@overload
def compile(
    mod: IRModule | Function,
    target: Literal["cuda"],
    *,
    arch: str | None = None,
    tf32: bool = False,
) -> DeviceExecutable: ...
@overload
def compile(
    mod: IRModule | Function, target: str, num_threads: int | None = None, **options: Any
) -> Any: ...
def compile(
    mod: IRModule | Function,
    target: str | None = None,
    num_threads: int | None = None,
    **options: Any,
) -> Any:
    """Compiles all functions of a module; `exe["main"](*arrays)` calls one.

    Without `target`, the vdevices of the program choose it, and the CPU is the default.
    On the CPU each call uses up to `num_threads` threads; the default is STRUCTIR_NUM_THREADS, or
    all physical cores that the process may use. With `exact_division`, division is never replaced
    by multiplication with a reciprocal, functions are never approximated by others, and
    convolutions are direct sums. Without it, results may differ by some roundings. With
    `fast_math`, fused kernels do not round the results of float16, bfloat16 and float8 ops before
    another op reads them.

    With `eager_first`, a thread compiles. Calls run on the interpreter until it is done, and
    `exe.wait()` waits for it. Results of the interpreter may differ by roundings.
    Each backend may have further options: see the page of "cuda".

    Raises StructIRError for an unknown backend or option.
    """
    module = mod if type(mod) is IRModule else runnable_module(mod, "structir.compile")
    contents = contents_of(module)
    if VDevice in contents.kinds:
        module, target = resolve_target(module, target, targets)
    target = target or DEFAULT
    lowered = lowering.ragged_form(module) if Ragged in contents.kinds else None
    if lowered is not None:
        check_well_formed(module)
        again = partial(compile, target=target, num_threads=num_threads, **options)
        return ragged_executable.compile_ragged(lowered, again, rows_together=target == "cpu")
    if target == "cpu" and options.pop("eager_first", False):
        check_well_formed(module)
        return eager.EagerExecutable(
            module, partial(compile, module, target, num_threads, **options)
        )
    options |= {} if num_threads is None else {"num_threads": num_threads}
    make = factory(target, options)
    with repeat_dropped_interrupts():
        check_well_formed(module)
        return make(_prepared(module, contents), **options)


def _prepared(module: IRModule, contents: Contents) -> IRModule:
    """Returns a module without derivatives, dtype variables of kernels, and combinators."""
    if not contents.attributes.isdisjoint(RULES):
        module = without_derivatives(module)
    if Kernel in contents.kinds:
        module = with_kernels_at_dtypes(module)
    if COMBINATOR in contents.hooks or GlobalVar in contents.kinds:
        module = combinators.expanded(module)
    return module
