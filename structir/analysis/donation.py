"""Function attributes of donated parameters and of state.

`donated` maps parameters to the results that may take their memory: `{"cache": 1}`. `state` maps
the name of each state to its parameter and to the result that is its new value: `{"layer.cache":
("cache", 1)}`. `initial_state` names the function that returns the initial values, in the order of
`state`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from structir.analysis.calls import are_disjoint
from structir.analysis.declaration import analysis
from structir.errors import Diagnostic
from structir.ir.dim_text import one_message
from structir.ir.expr import Function
from structir.ir.node import Node
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

DONATED, STATE, INITIAL_STATE = "donated", "state", "initial_state"


def results_of(function: Function) -> tuple[StructInfo | None, ...]:
    """Returns the StructInfos of the results: the fields of a tuple, or one."""
    info = function.ret_struct_info
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


def state_of(function: Function) -> dict[str, tuple[int, int]]:
    """Returns for each state its parameter and its result, by index."""
    params = [p.name for p in function.params]
    state = function.attrs.get(STATE, {})
    return {name: (params.index(p), result) for name, (p, result) in state.items()}


@analysis
def donated_of(function: Function) -> dict[int, int]:
    """Returns the result that may take the memory of each donated parameter, by index."""
    params = [p.name for p in function.params]
    return {params.index(p): k for p, k in function.attrs.get(DONATED, {}).items()}


def donation_violations(
    function: Function, name: str, functions: Mapping[str, Node]
) -> Iterator[Diagnostic]:
    """Returns the violations of the rules of these attributes."""
    for attribute in (DONATED, STATE):
        value = function.attrs.get(attribute, {})
        if not isinstance(value, Mapping):
            message = f"{name}: {attribute}: expected a dict, found {value!r}"
            yield _violation(function, message, USES[attribute])
            return
    donated, state = function.attrs.get(DONATED, {}), function.attrs.get(STATE, {})
    pairs = [(DONATED, f"{name}: {DONATED}", param, result) for param, result in donated.items()]
    for key, value in state.items():
        if not isinstance(value, tuple) or len(value) != 2:
            message = f"{name}: {STATE}: {key}: expected a parameter and a result, found {value!r}"
            parameter = key if type(value) is int else "cache"
            result = value if type(value) is int else 1
            edit = f'write `R.func_attr({{"state": {{"{key}": ("{parameter}", {result})}}}})`'
            yield _violation(function, message, edit)
            return
        pairs.append((STATE, f"{name}: {STATE}: {key}", *value))
    for attribute, where, param, result in pairs:
        for message in _pair_violations(function, where, param, result):
            yield _violation(function, message, USES[attribute])
    yield from _repetitions(function, name, pairs)
    initial = function.attrs.get(INITIAL_STATE)
    if initial is not None:
        yield from _initial_violations(function, name, functions.get(initial), initial)


def _repetitions(
    function: Function, name: str, pairs: Sequence[tuple[str, str, Any, Any]]
) -> Iterator[Diagnostic]:
    for kind, values in (
        ("parameter", [p for *_, p, _ in pairs]),
        ("result", [r for *_, r in pairs]),
    ):
        repeated = [v for k, v in enumerate(values) if v in values[:k]]
        for value in repeated:
            message = f"{name}: expected {kind} {value} once among {DONATED} and {STATE}"
            yield _violation(function, f"{message}, found it {values.count(value)} times", ONCE)


def _pair_violations(function: Function, where: str, param: Any, result: Any) -> Iterator[str]:
    infos: dict[Any, Any] = {p.name: p.struct_info for p in function.params}
    results = results_of(function)
    if param not in infos or not isinstance(infos[param], TensorStructInfo):
        tensors = [n for n, info in infos.items() if isinstance(info, TensorStructInfo)]
        violation = f"expected one of the tensor parameters {', '.join(tensors)}, found {param!r}"
        yield f"{where}: {violation}"
    elif type(result) is not int or not 0 <= result < len(results):
        violation = f"expected the index of one of {len(results)} results, found {result!r}"
        yield f"{where}: {param}: {violation}"
    else:
        info = results[result]
        if info is not None and are_disjoint(infos[param], info):
            with one_message():
                violation = f"expected result {result} as {infos[param]}, found {info}"
            yield f"{where}: {param}: {violation}"


def _initial_violations(
    function: Function, name: str, initial: Node | None, initial_name: str
) -> Iterator[Diagnostic]:
    where = f"{name}: {INITIAL_STATE}"
    state = function.attrs.get(STATE, {})
    if not isinstance(initial, Function) or initial.params:
        message = f"{where}: expected a function of the module without parameters"
        add = f"add a private function `{initial_name}()` that returns the initial values"
        yield _violation(function, f"{message}, found {initial_name!r}", add)
    elif len(results_of(initial)) != len(state):
        message = f"{where}: expected {len(state)} results of {initial_name}"
        count = len(state)
        edit = f"return {count} values, those of {', '.join(map(str, state))}"
        yield _violation(function, f"{message}, found {len(results_of(initial))}", edit)


USES = {
    DONATED: 'name parameters and results: `R.func_attr({"donated": {"cache": 1}})`',
    STATE: 'name states, parameters and results: `R.func_attr({"state": {"cache": ("cache", 1)}})`',
}
ONCE = "give each parameter and each result one state, or donate it once"


def _violation(function: Function, message: str, hint: str) -> Diagnostic:
    return Diagnostic(message, function.span, hint=hint, code="E0511")
