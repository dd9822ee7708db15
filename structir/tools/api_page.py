"""Generates the page of the public API: `python -m structir.tools.api_page docs/api.md`."""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from structir.opdef.attributes import AttributeKind
from structir.opdef.examples import Samples

MODULES = (
    "structir",
    "structir.ir",
    "structir.analysis",
    "structir.passes",
    "structir.solver",
    "structir.opdef",
    "structir.rewriting",
    "structir.projections",
    "structir.distributed",
    "structir.script",
    "structir.frontend",
    "structir.frontend.onnx",
    "structir.frontend.torch",
    "structir.numpy",
    "structir.numpy.linalg",
    "structir.numpy.fft",
    "structir.lax",
    "structir.lax.linalg",
    "structir.nn",
    "structir.nn.initializers",
    "structir.optim",
    "structir.random",
    "structir.scipy",
    "structir.scipy.linalg",
    "structir.scipy.signal",
    "structir.scipy.special",
    "structir.scipy.sparse.linalg",
    "structir.scipy.stats",
    "structir.tree",
    "structir.tree_util",
    "structir.image",
    "structir.ops",
    "structir.export",
    "structir.export.onnx",
    "structir.export.stablehlo",
    "structir.interpret",
    "structir.errors",
)
CONSTANTS = {
    "structir.ir.DERIVE_FUNCS": "The functions that `derive_func` registered, by name.",
    "structir.opdef.Operands": "Annotates the body of an op that takes a list of operands.",
    "structir.passes.Pass": "A pass: called with a module, it returns a module.",
    "structir.script.I": "The namespace of modules and kernels: `I.ir_module`, `I.kernel`.",
    "structir.script.R": "The namespace of functions, ops, StructInfo: `R.function`, `R.Tensor`.",
    "structir.script.T": "The namespace of sizes and of kernel bodies: `T.int64()`, `T.serial`.",
}
HEADER = """# Public API

This page lists the names that programs may import, by module. Every other module, and every name
with a leading underscore, is private and may change without notice. Each name loads on first use:
`import structir` imports no compiler.

Use this page to find a name. `help(structir.compile)` prints its full docstring, and `make docs`
builds a reference with signatures. Ops and passes have pages of their own: [ops.md](ops.md) and
[passes.md](passes.md). Each pass is an attribute of `structir.passes` under its name in camel case:

```python
import structir

print(structir.passes.DeadCodeElimination().name)
```

```text
dead_code_elimination
```
"""


def page() -> str:
    """Returns the whole page."""
    return "\n".join([HEADER, *map(section, MODULES)]).rstrip() + "\n"


def section(module: str) -> str:
    """Returns the heading and the table of one module."""
    about = first_line(importlib.import_module(module))
    rows = [f"| `{name}` | {text} |" for name, text in entries(module)]
    return "\n".join([f"## {module}\n", f"{about}\n", "| name | meaning |", "|---|---|", *rows, ""])


def entries(module: str) -> Iterator[tuple[str, str]]:
    """Yields the public names of a module, each with the first line of its docstring."""
    package = importlib.import_module(module)
    for name in public_names(package):
        value = getattr(package, name)
        yield name, CONSTANTS.get(f"{module}.{name}") or first_line(value, name)


def public_names(package: ModuleType) -> list[str]:
    """Returns the names of a package's lazy table or of `__all__`, else of its classes."""
    homes = vars(package).get("_homes", {}) | vars(package).get("_HOMES", {})
    declared = () if homes else vars(package).get("__all__", ())  # lazy tables are homes
    names = set(declared) | {
        name for name, home in homes.items() if home != f"{package.__name__}.{name}"
    }
    if not names and "__dir__" in vars(package):  # the names of its modules
        return [n for n in dir(package) if _is_documented(getattr(package, n))]
    if not names:
        names = {n for n, v in vars(package).items() if _is_class_of(v, package)}
    names |= {n for n, v in vars(package).items() if inspect.isfunction(v) and _is_own(v, package)}
    return sorted((n for n in names if not n.startswith("_")), key=lambda n: (n.lower(), n))


def first_line(value: Any, name: str = "") -> str:
    """Returns the first sentence of a docstring, or the description of an attribute annotation."""
    if typing.get_origin(value) is typing.Annotated:
        kinds = [each for each in typing.get_args(value) if isinstance(each, AttributeKind)]
        return f"Annotation of an op's attribute. Accepts {kinds[0].expected}." if kinds else ""
    if isinstance(value, Samples):
        return f"Example operands of dtype {value.dtype}, for `example`: `{name}[2, 3]`."
    text = inspect.getdoc(value) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence, end, _ = paragraph.partition(". ")
    return (sentence + end.strip()).replace("|", "\\|")


def _is_documented(value: Any) -> bool:
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return str(home).startswith("structir")


def _is_class_of(value: Any, package: ModuleType) -> bool:
    return isinstance(value, type) and _is_own(value, package)


def _is_own(value: Any, package: ModuleType) -> bool:
    return bool(value.__module__ == package.__name__)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
