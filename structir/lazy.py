"""Lazy imports: modules and public names that load on first use."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

from structir.interrupts import defer_interrupts


def import_completely(name: str) -> ModuleType:
    """Imports a module; an interrupt that arrives meanwhile is handled after it.

    A module that an interrupt leaves half imported fails at every later import: numba's modules
    import each other in cycles.
    """
    with defer_interrupts():
        return importlib.import_module(name)


class LazyModule:
    """A proxy that imports its module on the first attribute access."""

    def __init__(self, name: str) -> None:
        self._module_name = name

    def _target(self) -> str:
        """Returns the name of the module."""
        return self._module_name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_completely(self._target()), attribute)
        setattr(self, attribute, value)
        return value


def lazy_module(name: str) -> Any:
    """Returns a proxy of a module that is imported on first use."""
    return LazyModule(name)


_PROVIDERS: dict[str, str] = {}


def provide(modules: Mapping[str, str]) -> None:
    """Declares the module that implements each interface, by the name of the interface."""
    _PROVIDERS.update(modules)


class _ProvidedModule(LazyModule):
    """A proxy of the module that `provide` declares for an interface, which is its name."""

    def _target(self) -> str:
        return _PROVIDERS[self._module_name]


def provided_module(interface: str) -> Any:
    """Returns a proxy of the module that implements an interface, imported on first use.

    A layer uses it for what a higher layer implements, as a node uses the printer: it names the
    interface only, and the package `structir` declares the implementations.
    """
    return _ProvidedModule(interface)


class _Facade(ModuleType):
    """A package whose public names take precedence over submodules of the same name.

    The import system sets each submodule as an attribute of its package, which would hide the name
    that `__getattr__` resolves.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        is_submodule = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        home = self._homes.get(name)
        if not is_submodule or home in (None, f"{self.__name__}.{name}:"):
            super().__setattr__(name, value)


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package with lazy public names.

    `homes` maps each name to its module: `"a.b"` defines the name, `"a.b:"` is the named module.
    """
    module = sys.modules[package]
    module.__dict__.setdefault("_homes", {}).update(homes)
    module.__class__ = _Facade
    module.__dict__["__all__"] = sorted(module.__dict__["_homes"])  # for `from package import *`

    def find(name: str) -> Any:
        if name not in homes:
            raise _unknown(package, name)
        home = homes[name]
        loaded = importlib.import_module(home.removesuffix(":"))
        return loaded if home.endswith(":") else getattr(loaded, name)

    return find, lambda: sorted(homes)


def _unknown(package: str, name: str) -> Exception:
    """Returns the error for a name that a package lacks; with help, for a name of TVM or JAX.

    An import replaces the message of an AttributeError by its own, but not an ImportError; after an
    AttributeError it tries a submodule.
    """
    message = f"module {package!r} has no attribute {name!r}"
    counterparts = importlib.import_module("structir.counterparts")
    helped: str = counterparts.with_help(message, name)
    is_import = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    if is_import and helped != message and not importlib.util.find_spec(f"{package}.{name}"):
        return ImportError(helped)
    return AttributeError(helped)


EXPORTED = "_exported"
F = TypeVar("F", bound=Callable[..., Any])


def exported(function: F) -> F:
    """Marks a function as a public name of a package with `lazy_members`."""
    setattr(function, EXPORTED, True)
    return function


class _Package(ModuleType):
    """A package whose modules that are public names have these as attributes, not themselves."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_submodule = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        if not (is_submodule and name in self._public_modules):
            super().__setattr__(name, value)


class ModuleNames(ModuleType):
    """The public names of a module, without those that it imports."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._module = module  # which may be half imported

    def __dir__(self) -> list[str]:
        return sorted(_members_of(self._module))

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return dir(self)
        members = {} if name.startswith("__") else _members_of(self._module)
        if name not in members:
            raise _unknown(self.__name__, name)
        setattr(self, name, members[name])
        return members[name]


def lazy_members(
    package: str, modules: tuple[str, ...]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package whose names are those of its modules.

    A module exports the functions that it defines and `exported` marks, and the names in its
    `__all__`. `"name:"` is a package, or a module, that is itself a public name; of a module it is
    the ModuleNames. `"a.b"` is a module of another package. The modules are imported on first use.
    """
    public = {m.rstrip(":") for m in modules if m.endswith(":")}
    sys.modules[package].__dict__["_public_modules"] = public
    sys.modules[package].__class__ = _Package
    names: dict[str, Any] = {}
    namespaces: dict[str, ModuleType] = {}

    def members() -> dict[str, Any]:
        for name in () if names else modules:
            stem = name.rstrip(":")
            names.update({stem: find(stem)} if stem in public else _members_of(home_of(name)))
        return names

    def home_of(name: str) -> ModuleType:
        return importlib.import_module(name if "." in name else f"{package}.{name}")

    def find(name: str) -> Any:
        if name == "__all__":  # for `from package import *`
            return sorted(members())
        if name in public:  # without the other modules, which may import it
            if name not in namespaces:
                module = home_of(name)
                namespaces[name] = module if hasattr(module, "__path__") else ModuleNames(module)
            return namespaces[name]
        if name.startswith("__") or name not in members():
            raise _unknown(package, name)
        return members()[name]

    return find, lambda: sorted(members())


def _members_of(module: ModuleType) -> dict[str, Any]:
    """Returns the names in `__all__` of a module, and the functions with the mark `exported` that
    it defines."""
    named = getattr(module, "__all__", ())
    return {
        name: value
        for name, value in vars(module).items()
        if name in named or (_is_exported_by(module, value) and not name.startswith("_"))
    }


def _is_exported_by(module: ModuleType, value: Any) -> bool:
    return hasattr(value, EXPORTED) and getattr(value, "__module__", None) == module.__name__
