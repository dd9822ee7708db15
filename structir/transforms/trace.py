"""`structir.trace`: runs a Python function once on symbolic values and returns its module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.interpret.interpreter import Interpreter
from structir.interrupts import collection_paused
from structir.ir.expr import Constant, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.lazy import lazy_module
from structir.tracing.array import TracedArray, numpy_name
from structir.tracing.context import Session, new_session
from structir.tracing.size import as_dims
from structir.tracing.trees import TreeStructure, flatten
from structir.tracing.trees import map as map_leaves
from structir.transforms import functions

np = lazy_module("numpy")
cse = lazy_module("structir.passes.common_subexpression_elimination")
dce = lazy_module("structir.passes.dead_code_elimination")
rules = lazy_module("structir.analysis.well_formed")


def trace(function: Callable[..., Any], *specs: Any, name: str = "main") -> IRModule:
    """Traces a Python function: runs it once on symbolic values and returns its module.

    `specs` describe the arguments: a StructInfo (`R.Tensor(("n", 8), "float32")`), an array or
    another object with a shape and a dtype, a number, or a tuple, list or dict of these. Without
    `specs` the annotations of the parameters are used, as by `@structir.trace`. A dict becomes a
    tuple with named fields.

    A symbolic size stays symbolic: the program is compiled once for all sizes. Raises
    DiagnosticError at the user's line where the function needs the elements of an array, or the
    value of a symbolic size.
    """
    specs = specs or _annotations(function)
    infos = [struct_info_of(spec) for spec in specs]
    structures = [flatten(spec, is_leaf=_is_info)[1] for spec in specs]
    module, _ = traced_module(function, infos, name, structures)
    return module


def _is_info(value: Any) -> bool:
    return isinstance(value, StructInfo)


def _annotations(function: Callable[..., Any]) -> tuple[Any, ...]:
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if parameter.annotation is parameter.empty or isinstance(parameter.annotation, str):
            message = f"trace: the parameter `{parameter.name}` has no StructInfo"
            hint = (
                f'annotate it: `{parameter.name}: R.Tensor(("n", 4), "float32")`, pass it: '
                '`structir.trace(f, R.Tensor(("n", 4), "float32"))`, or use `structir.jit`'
            )
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E1109"))
    return tuple([parameter.annotation for parameter in parameters])


def struct_info_of(spec: Any) -> StructInfo:
    """Returns the StructInfo of an argument's description."""
    leaves, structure = flatten(spec, is_leaf=_is_info)
    return functions.nested_info(structure, iter([leaf_info(leaf) for leaf in leaves]))


def leaf_info(spec: Any) -> StructInfo:
    """Returns the StructInfo of an array, a number, or another object with a shape and a dtype."""
    if isinstance(spec, StructInfo):
        return spec
    if isinstance(spec, bool | int | float):
        dtype = (
            "bool" if isinstance(spec, bool) else "int32" if isinstance(spec, int) else "float32"
        )
        return TensorStructInfo((), dtype)
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        return TensorStructInfo(as_dims(tuple(spec.shape)), numpy_name(spec.dtype))
    message = f"trace: expected the StructInfo of an argument or an array, found {spec!r}"
    hint = 'describe the argument: `R.Tensor(("n", 8), "float32")`'
    raise DiagnosticError(Diagnostic(message, hint=hint, code="E1109"))


@collection_paused()
def traced_module(
    function: Callable[..., Any],
    infos: list[StructInfo],
    name: str,
    structures: Sequence[TreeStructure],
    fixes_sizes: bool = False,
) -> tuple[IRModule, TreeStructure]:
    """Returns the module of a function, and the structure of its result.

    `infos` and `structures` are the StructInfo and the containers of its arguments. With
    `fixes_sizes`, UnknownSizeError names symbols whose values make a better program.
    """
    with new_session(fixes_sizes) as current:
        names = functions.parameter_names(function, len(infos))
        params = [Var(n, info) for n, info in zip(names, infos, strict=True)]
        with current.function(name, params, private=False) as frame:
            pairs = zip(structures, params, strict=True)
            arguments = [_rebuilt(structure, functions.argument(p)) for structure, p in pairs]
            result = function(*arguments)
            structure = flatten(result)[1]
            current.close(frame, functions.output(result))
        return finished(current, name, keeps_rules=not fixes_sizes), structure


@collection_paused()
def flat_module(
    function: Callable[..., Any],
    infos: list[StructInfo],
    name: str,
    structures: Sequence[TreeStructure],
    fixes_sizes: bool = False,
) -> tuple[IRModule, TreeStructure]:
    """Returns a module whose function has a parameter and a result for each leaf.

    `infos` are the StructInfos of the leaves.
    """
    with new_session(fixes_sizes) as current:
        names = functions.parameter_names(function, len(structures))
        pairs = zip(names, structures, strict=True)
        stems = [f"{n}_{k}" if s.kind else n for n, s in pairs for k in range(s.leaves)]
        params = [Var(stem, info) for stem, info in zip(stems, infos, strict=True)]
        with current.function(name, params, private=False) as frame:
            leaves = iter([TracedArray(param) for param in params])
            result = function(*[structure.unflatten(leaves) for structure in structures])
            values, structure = flatten(result)
            current.close(frame, tuple([functions.output(value) for value in values]))
        return finished(current, name), structure


def finished(current: Session, name: str, keeps_rules: bool = False) -> IRModule:
    """Returns the module of a function and those that it uses, checked.

    With `keeps_rules`, also the derivatives that these declare: it may be differentiated.
    """
    if not keeps_rules:
        functions.drop_rules(current)
    module = IRModule(functions.reachable(current, [name]))
    if current.has_derived:  # a derivative repeats values, and computes some that nothing reads
        module = simplify(module)
    rules.check_well_formed(module, deduced=True)
    return module


def simplify(module: IRModule) -> IRModule:
    """Returns a module without repeated and unused values."""
    return dce.dead_code_elimination(cse.common_subexpression_elimination(module))


def evaluate(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Evaluates a function of arrays at once; its results are NumPy arrays."""
    with new_session() as current, current.function("main", [], private=False) as frame:
        result = function(*_as_strong(args), **_as_strong(keywords))
        structure = flatten(result)[1]
        current.close(frame, functions.output(result))
    module = IRModule(functions.reachable(current, ["main"]))
    values = Interpreter(module).global_function("main")()
    return structure.unflatten([np.asarray(v) for v in _leaves(structure, values)])


def _rebuilt(structure: TreeStructure, value: Any) -> Any:
    """Returns a nested tuple or dict in the containers of an argument."""
    return structure.unflatten(_leaves(structure, value))


def _as_strong(values: Any) -> Any:
    """Returns arguments with their arrays as constants of their own dtypes."""
    return map_leaves(
        lambda leaf: TracedArray(Constant(leaf)) if isinstance(leaf, np.ndarray) else leaf, values
    )


def _leaves(structure: TreeStructure, value: Any) -> list[Any]:
    if structure.kind is None:
        return [value]
    items = list(value.values()) if isinstance(value, dict) else value
    pairs = zip(structure.children, items, strict=True)
    return [leaf for part, item in pairs for leaf in _leaves(part, item)]
