"""`structir.compile`: a module as an executable of some backend, compiled once for every size."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal, overload

import structir.backend as room
from structir.analysis.well_formed import check_well_formed
from structir.errors import StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule, as_module

if TYPE_CHECKING:
    from structir.backend.cuda.executable import DeviceExecutable
    from structir.backend.executable import Executable

HOME = "target"  # the file of a backend's room whose `executable` makes a module's executable


PLUGINS = "structir.backends"  # the entry points of other packages that have one


def targets() -> tuple[str, ...]:
    """The backends that there are, here and in other packages."""
    others = [plugin.name for plugin in metadata.entry_points(group=PLUGINS)]
    return tuple(dict.fromkeys((*_own_targets(), *sorted(others))))


@cache
def _own_targets() -> tuple[str, ...]:
    """The rooms beside this file that have such a file."""
    rooms = [f for f in pkgutil.iter_modules(room.__path__) if f.ispkg]
    found = [
        each.name
        for each in rooms
        if any(
            file.name == HOME for file in pkgutil.iter_modules([f"{room.__path__[0]}/{each.name}"])
        )
    ]
    return tuple(sorted(found))


@cache
def _home_of(target: str) -> Callable[..., Any]:
    if target in _own_targets():  # those of other packages take a while to find
        home: Any = importlib.import_module(f"{room.__name__}.{target}.{HOME}").executable
    elif target not in targets():
        raise StructIRError(
            f"no backend {target!r}; there are {', '.join(targets())}", code="E1001"
        )
    else:
        (plugin, *_) = metadata.entry_points(group=PLUGINS, name=target)
        home = plugin.load()
    made: Callable[..., Any] = home
    return made


@overload
def compile(
    mod: IRModule | Function,
    target: Literal["cpu"] = "cpu",
    num_threads: int | None = None,
    *,
    exact_division: bool = False,
) -> Executable: ...
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
    mod: IRModule | Function, target: str = "cpu", num_threads: int | None = None, **options: Any
) -> Any:
    """Compile all functions of a module; `exe["main"](*arrays)` runs one.

    On the CPU each call uses up to `num_threads` threads: without it, what STRUCTIR_NUM_THREADS
    says, or one. With `exact_division` every division is one, and no function stands for another:
    without it, results may be a rounding or two off. Every backend has options of its own: for
    "cuda" see its page.
    """
    module = as_module(mod, "structir.compile")
    make = _home_of(target)
    known = list(inspect.signature(make).parameters)[1:]
    options |= {} if num_threads is None else {"num_threads": num_threads}
    for name in options.keys() - set(known):
        raise StructIRError(
            f"the {target} backend has no option {name!r}; it has {', '.join(known) or 'none'}"
        )
    check_well_formed(module)
    return make(module, **options)
