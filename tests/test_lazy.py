"""Names that load on first use: where they win over files of the same name."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import structir
from structir.counterparts import COUNTERPARTS
from structir.lazy import lazy_module

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("package", "name"), [("ir", "struct_info"), ("analysis", "well_formed"), ("ir", "derive_func")]
)
@pytest.mark.parametrize("first", ["import structir.{0}.{1}", "from structir.{0} import {1}", ""])
def test_a_public_name_wins_over_its_file(package: str, name: str, first: str) -> None:
    """Python sets an imported file as an attribute of its package; the public name stays."""
    file = ROOT / "structir" / package / f"{name}.py"
    imports = first.format(package, name) if file.exists() else ""
    script = f"import structir\n{imports}\nassert callable(structir.{package}.{name})"
    run = [sys.executable, "-c", script]
    finished = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_files_named_as_something_of_another_compiler_are_imported() -> None:
    files = [path for path in (ROOT / "structir").rglob("*.py") if path.stem in COUNTERPARTS]
    places = [(".".join(path.parent.relative_to(ROOT).parts), path.stem) for path in files]
    assert ("structir.ir", "dtype") in places
    script = "\n".join([f"from {package} import {name}" for package, name in places])
    run = [sys.executable, "-c", script]
    finished = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_a_file_that_is_public_itself_is_a_module() -> None:
    assert isinstance(structir.ir.dims, ModuleType)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match=r"module 'structir\.ir' has no attribute 'Nothing'"):
        _ = structir.ir.Nothing
    assert "Function" in dir(structir.ir)


def test_a_star_imports_the_public_names() -> None:
    for package, name in (("structir.ir", "Expr"), ("structir.numpy", "einsum")):
        namespace: dict[str, object] = {}
        exec(f"from {package} import *", namespace)
        assert name in namespace, package


PACKAGES = ("lax", "nn", "numpy", "optim", "random", "scipy.special", "scipy.stats")
MODULES = ("lax.linalg", "nn.initializers", "numpy.fft", "numpy.linalg", "scipy.linalg")
IMPORTED = {"nn": "arange where", "numpy": "larger convert", "random": "stack argsort"}
IMPORTED |= {"lax": "maximum multiply", "numpy.linalg": "Any TracedArray where", "optim": "zeros"}
IMPORTED |= {"scipy.linalg": "math arange", "scipy.stats.norm": "exp log"}


def _attribute(path: str) -> ModuleType:
    value: ModuleType = structir
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("path", [*PACKAGES, *MODULES])
def test_a_package_exports_its_own_names_only(path: str) -> None:
    names = [name for name in dir(_attribute(path)) if not name.startswith("__")]
    assert names == sorted(set(names)) and not [n for n in names if n.startswith("_")]
    package = _attribute(path)
    for name in IMPORTED.get(path, "").split():
        assert name not in names
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(package, name)


def test_distributions_and_solvers_are_namespaces() -> None:
    assert dir(structir.scipy.stats.norm) == sorted(
        ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
    )
    assert dir(structir.scipy.sparse.linalg) == ["bicgstab", "cg"]
    for name in IMPORTED["scipy.stats.norm"].split():
        assert not hasattr(structir.scipy.stats.norm, name)
    namespace: dict[str, object] = {}
    exec("from structir.scipy.stats.norm import pdf as own", namespace)
    assert namespace["own"] is structir.scipy.stats.norm.pdf


def test_a_lazy_module_loads_when_it_is_used() -> None:
    module = lazy_module("json")
    assert module.loads("[1]") == [1]
    missing = lazy_module("structir.nowhere")
    with pytest.raises(ModuleNotFoundError):
        _ = missing.name
