"""Package layout: layers, import cycles, imports inside functions, the cost of imports, docstrings
and sizes of files, and packages that know no op."""

import ast
import builtins
import graphlib
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from structir import lazy
from structir.projections.monoid import MONOIDS
from structir.projections.scalar_expr import FUNCTIONS
from tests.ops.built_in import BUILT_IN_OPS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "structir"

# From the lowest to the highest. A file imports only from its own layer and from lower ones.
LAYERS = (
    "tracebacks",
    "errors",
    "interrupts",
    "counterparts",
    "lazy",
    "system",
    "ir",
    "analysis",
    "build",
    "rewriting",
    "projections",
    "solver",
    "opdef",
    "ops",
    "printer",
    "script",
    "interpret",
    "adjoints",
    "batching",
    "ragged",
    "planning",
    "proving",
    "loops.program",
    "targets.cpu",
    "loops.products",
    "loops.schedule",
    "loops.primitives",
    "loops.handle",
    "loops.recipe_steps",
    "loops.recipes",
    "loops.lower",
    "loops.rewrite",
    "loops.fusion",
    "loops.emit",
    "loops.kernel",
    "loops.regions",
    "loops",
    "runtime",
    "targets.cpu.target",
    "targets.cuda",
    "targets",
    "scheduling",
    "passes",
    "scalars",
    "frontend",
    "tracing",
    "tree",
    "tree_util",
    "numpy",
    "random",
    "nn",
    "image",
    "transforms",
    "lax",
    "scipy",
    "optim",
    "export",
    "distributed",
    "tools",
    "__main__",
)
# Packages that treat all ops alike. A word of theirs that is also an op's name is one of another
# vocabulary: of bodies, of monoids, of Python and NumPy, or one that is listed here.
OPLESS = (
    "adjoints",
    "planning",
    "proving",
    "analysis",
    "solver",
    "projections",
    "printer",
    "passes",
    "loops.program",
    "loops.products",
    "loops.schedule",
    "loops.lower",
    "loops.rewrite",
    "loops.fusion",
    "loops.emit",
    "loops.kernel",
)
OTHER_WORDS = {
    "full": "not partial",
    "linear": "of a size: a coefficient and a rest",
    "ones": "more than one thing",
    "outer": "not inner",
    "pad": "of a window: how far it hangs over",
    "power": "of a number",
    "repeat": "to say again",
    "size": "of an axis",
    "split": "to divide",
    "squeeze": "of an array: NumPy's",
    "stack": "what is pushed and popped",
    "take": "to get",
    "tile": "a block of a loop nest",
    "unique": "one of its kind",
    "view": "another look at the same memory",
    "zeros": "more than one zero",
}
# Where a message tells the user which op would do: advice, on which nothing else depends.
ADVICE = {
    "structir.analysis.deduction": {"reshape", "astype"},
    "structir.analysis.well_formed": {"astype", "max", "where"},
    "structir.printer.parser.expressions": {
        *("logical_not", "permute_dims", "reshape", "shape_of"),
    },
    "structir.printer.parser.augmented": {"slice_scatter", "where"},
    "structir.printer.parser.element_assignments": {
        *("broadcast_to", "expand_dims", "full", "index_put", "slice_scatter", "where"),
    },
    "structir.printer.parser.foreign_arguments": {"astype", "matmul"},
    "structir.printer.parser.foreign_names": {  # a vocabulary
        *("abs", "arange", "astype", "broadcast_to", "concat", "cumprod", "cumsum", "divide"),
        *("einsum", "equal", "exp", "expand_dims", "eye", "eye_like", "floor_mod", "grad.no_grad"),
        *("greater", "greater_equal", "less", "less_equal", "linalg.solve", "linear", "log"),
        *("log_add_exp", "matmul", "max", "min", "mod", "multiply", "negative", "nonzero"),
        *("not_equal", "permute_dims", "power", "reshape", "size", "split", "sqrt", "square"),
        *("subtract", "sum", "take", "variance", "where"),
    },
    "structir.printer.parser.name_hints": {
        *("arange", "astype", "exp", "sum"),
    },
    "structir.printer.parser.kernel_advice": {"sort", "zeros_like"},
    "structir.printer.parser.static_functions": {"arange", "astype", "eye", "reshape"},  # NumPy's
    "structir.printer.parser.tvm_spellings": {  # a vocabulary
        *("astype", "concat", "exp", "multiply", "nn.attention", "nn.pad", "permute_dims"),
        *("one_hot", "reshape", "to_vdevice", "vision.all_class_non_max_suppression"),
    },
    "structir.printer.parser.subscripts": {"nonzero", "squeeze", "take", "where"},
    "structir.printer.parser.values": {"where"},
}
HEAVY = ("sympy", "numba", "numpy", "scipy", "rich", "typer")
FILE_LINES = 500
FUNCTION_LINES = 60
# Where a library that is slow to load may be imported at the top of a file; others go by `lazy.py`.
SLOW_LIBRARIES = {"sympy": "structir.ir.symbolic", "numba": "structir.targets"}
LATE_IMPORTS_ALLOWED = {"structir.lazy"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(SOURCES[module].read_text(encoding="utf-8"))


@cache
def nodes_of(module: str) -> tuple[ast.AST, ...]:
    """Returns all nodes of a file: to walk the trees of the package takes seconds."""
    return tuple(ast.walk(tree_of(module)))


def imports_in(module: str) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in nodes_of(module) if isinstance(node, ast.Import | ast.ImportFrom)]


def calls_of(module: str, name: str) -> Iterator[ast.Call]:
    """Yields the calls of a function by its name alone."""
    for node in nodes_of(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def package_of(module: str) -> str:
    """What a relative import in this module starts from."""
    return module if SOURCES[module].name == "__init__.py" else module.rpartition(".")[0]


def imported_modules(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules of the package that one import statement names, submodules before packages."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in SOURCES)
        return
    start = package_of(module).split(".") if node.level else []
    start = start[: len(start) - node.level + 1] if node.level else []
    base = ".".join([*start, node.module] if node.module else start)
    for alias in node.names:
        submodule = f"{base}.{alias.name}"
        if submodule in SOURCES:
            yield submodule
        elif base in SOURCES:
            yield base


@cache
def imports_of(module: str) -> frozenset[str]:
    """Every module of the package that this one imports, type checking imports included."""
    imported = {name for node in imports_in(module) for name in imported_modules(module, node)}
    return frozenset(imported - {module})


@cache
def lazy_imports_of(module: str) -> frozenset[str]:
    """The modules of the package, but for its facade, that this one imports on first use."""
    calls = (
        node.args[0].value
        for node in calls_of(module, "lazy_module")
        if isinstance(node.args[0], ast.Constant)
    )
    return frozenset(name for name in calls if name in SOURCES and name != "structir")


def layer_of(module: str) -> int:
    """The index of the module's layer; the facade of the package is above all layers."""
    name = module.partition(".")[2]
    while name and name not in LAYERS:
        name = name.rpartition(".")[0]
    return LAYERS.index(name) if name else len(LAYERS)


def for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def run_at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """The top statements of a file, less those that only type checkers see."""
    return (statement for statement in tree.body if not for_type_checkers(statement))


def imported_libraries(node: ast.AST) -> Iterator[str]:
    """The top packages that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.split(".")[0]


def functions_of(module: str) -> Iterator[FunctionNode]:
    return (node for node in nodes_of(module) if isinstance(node, FunctionNode))


def test_every_file_belongs_to_a_layer() -> None:
    assert [name for name in SOURCES if "." in name and layer_of(name) == len(LAYERS)] == []


def test_imports_go_down() -> None:
    upward = [
        f"{module} imports {target}"
        for module in SOURCES
        for target in sorted(imports_of(module) | lazy_imports_of(module))
        if layer_of(target) > layer_of(module)
    ]
    assert upward == []


def test_interfaces_of_lower_layers_have_an_implementation() -> None:
    """Each name that a layer passes to `provided_module` has a module, of a higher layer."""
    users = {
        node.args[0].value: module
        for module in SOURCES
        for node in calls_of(module, "provided_module")
    }
    providers = lazy._PROVIDERS
    assert users.keys() == providers.keys()
    assert [n for n, user in users.items() if layer_of(providers[n]) <= layer_of(user)] == []


def test_no_import_cycles() -> None:
    try:
        graphlib.TopologicalSorter({name: imports_of(name) for name in SOURCES}).prepare()
    except graphlib.CycleError as error:
        pytest.fail("import cycle: " + " <- ".join(error.args[1]))


def test_no_import_inside_a_function() -> None:
    late = [
        f"{module}:{node.lineno} in {function.name}"
        for module in SOURCES.keys() - LATE_IMPORTS_ALLOWED
        if any(node.col_offset for node in imports_in(module))  # else all are at the top
        for function in functions_of(module)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert late == []


def loaded_after(statements: str) -> list[str]:
    """The libraries of HEAVY that a fresh interpreter has loaded after these statements."""
    script = f"{statements}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    run = [sys.executable, "-c", script]
    finished = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.split()


def test_import_is_light() -> None:
    assert loaded_after("import structir") == []


def test_reading_and_printing_needs_no_slow_library() -> None:
    text = 'R.function\ndef f(x: R.Tensor(("n", "n + 1"), "float32")):\n    return R.add(x, x)\n'
    loaded = loaded_after(f"import structir\nstructir.parse({'@' + text!r}).script()")
    assert not {"sympy", "numba"} & set(loaded)


def test_slow_libraries_are_imported_in_their_packages() -> None:
    strays = [
        f"{module} imports {library}"
        for module in SOURCES
        for node in run_at_import(tree_of(module))
        for library in imported_libraries(node)
        if not module.startswith(SLOW_LIBRARIES.get(library, "structir"))
    ]
    assert strays == []


def test_public_names_resolve() -> None:
    script = "import structir; [getattr(structir, name) for name in dir(structir)]"
    run = [sys.executable, "-W", "error", "-c", script]
    looked_up = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert looked_up.returncode == 0, looked_up.stderr


def test_every_file_has_a_docstring() -> None:
    headers = {module: ast.get_docstring(tree_of(module)) or "" for module in SOURCES}
    sentences = {module: text.split("\n\n")[0] for module, text in headers.items()}
    assert [module for module, text in sentences.items() if not text.endswith(".")] == []


def test_files_and_functions_are_small() -> None:
    large = [
        f"{module}: {lines} lines"
        for module, path in SOURCES.items()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > FILE_LINES
    ]
    large += [
        f"{module}:{function.lineno} {function.name}: {lines} lines"
        for module in SOURCES
        for function in functions_of(module)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES
    ]
    assert large == []


def test_postponed_work_names_its_issue() -> None:
    mark = re.compile(r"\b(TO" + r"DO|FIX" + r"ME)\b(?!\(#\d+\))")
    folders = ("structir", "tests", "examples", "benchmarks")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    unnamed = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        if "peers" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if mark.search(line)
    ]
    assert unnamed == []


def op_names() -> set[str]:
    """The full names of the package's ops."""
    return set(BUILT_IN_OPS)


OTHER_VOCABULARIES = {
    "solve",  # of constraints and linear sizes
    *FUNCTIONS,
    *(f.numpy for f in FUNCTIONS.values() if isinstance(f.numpy, str)),
    *MONOIDS,
    *dir(builtins),
    *dir(math),
    *OTHER_WORDS,
}
# a name with all its dots; what precedes a dot and is not `R` has such an attribute itself
NAMES = re.compile(r"(?<![\w.)\]])[A-Za-z_]\w*(?:\.\w+)*")


def ops_named(module: str) -> set[str]:
    """The ops that a file names, in code, in texts and in comments."""
    names = op_names()
    short = {name.rpartition(".")[2] for name in names} - OTHER_VOCABULARIES
    named = set()
    for word in NAMES.findall(SOURCES[module].read_text(encoding="utf-8")):
        plain = word.removeprefix("R.")
        known = plain in names if "." in word else word in short
        named |= {plain} if known else set()
    return named


def opless_modules() -> list[str]:
    packages = tuple(f"structir.{name}" for name in OPLESS)
    return [m for m in SOURCES if f"{m}.".startswith(tuple(f"{p}." for p in packages))]


def test_no_op_is_named_where_all_are_alike() -> None:
    named = {module: ops_named(module) for module in opless_modules()}
    assert {m: ops for m, ops in named.items() if ops != ADVICE.get(m, set())} == {}


def test_no_op_is_looked_up_by_a_name_that_is_written_down() -> None:
    """Nor is the name of an op compared with one."""
    names = op_names()
    strays = [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module in opless_modules()
        for node in nodes_of(module)
        if isinstance(node, ast.Call | ast.Compare) and concerns_ops(node)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in names
    ]
    assert strays == []


def concerns_ops(node: ast.Call | ast.Compare) -> bool:
    """Whether it looks an op up, or compares the name of one."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] == "find_op"
    sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
    return any(re.search(r"\b(op|definition)\.name\b", side) for side in sides)


def test_the_listed_words_are_names_of_ops() -> None:
    names = op_names()
    assert set(OTHER_WORDS) <= {name.rpartition(".")[2] for name in names}
    assert set().union(*ADVICE.values()) <= names
