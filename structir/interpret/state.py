"""State: the mutable buffers of a module, such as KV caches and running statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from structir.analysis.arguments import arguments_of, default_values
from structir.analysis.donation import INITIAL_STATE, STATE, results_of, state_of
from structir.analysis.internal_functions import only_function
from structir.analysis.well_formed import check_well_formed
from structir.build import runnable_module
from structir.errors import ShapeMismatchError, StructIRError
from structir.interpret.argument_checks import match
from structir.interpret.argument_conversion import as_value, located
from structir.interpret.interpreter import Interpreter
from structir.interpret.ownership import owning
from structir.interpret.scope import Activation, Value
from structir.ir.expr import Function, Var
from structir.ir.module import IRModule
from structir.system.locks import new_lock

# Calls a function: its name, the results that may take the memory of arguments, and the arguments.
Run = Callable[[str, Mapping[int, int], Sequence[Value]], Value]


class State:
    """The values of the state of a module: `state["main"](*inputs)` calls a function with them, and
    replaces them by the new values.

    `state.buffers` maps names to read-only arrays; assigning to an entry sets a value. `reset`
    restores the initial values. Handles are independent of each other.
    """

    def __init__(self, module: IRModule, run: Run | None = None) -> None:
        self.module = runnable_module(module, "structir.State")
        self._run = run or _interpreted(self.module)
        functions = self.module.functions.items()
        self._functions = {n: f for n, f in functions if isinstance(f, Function) and state_of(f)}
        self._places = {name: state_of(f) for name, f in self._functions.items()}
        if not self._functions:
            raise StructIRError(
                "structir.State: expected a module with state, found no function with the "
                f"attribute {STATE!r}"
            )
        self._lock = new_lock()
        self.buffers = StateBuffers(self._params())
        self.reset()

    def _params(self) -> dict[str, Var]:
        """Returns the parameter of each state, in the first function that has it."""
        params: dict[str, Var] = {}
        for function in self._functions.values():
            for name, (param, _) in state_of(function).items():
                params.setdefault(name, function.params[param])
        return params

    def reset(self) -> None:
        """Restores the initial values."""
        values: dict[str, Any] = {}
        for function in self._functions.values():
            initial, names = function.attrs.get(INITIAL_STATE), list(state_of(function))
            if initial is not None and not values.keys() >= set(names):
                results = self._run(initial, {}, ())
                fields = results if isinstance(results, tuple) else (results,)
                values = {**dict(zip(names, fields, strict=True)), **values}
        with self._lock:
            for name, value in values.items():
                self.buffers.put(name, self.buffers.checked(name, value))

    def __getitem__(self, name: str) -> Callable[..., Value]:
        """Returns a function without its parameters and results of state."""
        if name in self._functions:
            return partial(self._call, name, self._functions[name])
        if not isinstance(self.module.functions.get(name), Function):
            raise StructIRError(f"structir.State: the module has no function {name!r}")
        function = self.module[name]
        bind = partial(arguments_of, name, function.params)
        defaults = partial(default_values, function)
        return lambda *args, **names: self._run(name, {}, bind(args, names, defaults))

    def __call__(self, /, *inputs: Value, **names: Value) -> Value:
        """Calls the only public function of the module."""
        return self[only_function(self.module)](*inputs, **names)

    def _call(self, name: str, function: Function, /, *inputs: Value, **names: Value) -> Value:
        state = self._places[name]
        params = {param: key for key, (param, _) in state.items()}
        visible = [p for k, p in enumerate(function.params) if k not in params]
        rest = iter(arguments_of(name, visible, inputs, names, partial(default_values, function)))
        with self._lock:
            args = [
                self.buffers.take(params[k]) if k in params else next(rest)
                for k in range(len(function.params))
            ]
            value = self._run(name, dict(state.values()), args)
            results = value if len(results_of(function)) > 1 or type(value) is tuple else (value,)
            for key, (_, index) in state.items():
                self.buffers.put(key, results[index])
        new_values = {index for _, index in state.values()}
        others = tuple([r for k, r in enumerate(results) if k not in new_values])
        return others[0] if len(others) == 1 else others

    def __repr__(self) -> str:
        return f"State({', '.join(self.buffers)})"


class StateBuffers(MutableMapping[str, Any]):
    """The arrays of a state by name. An array that is read is a read-only view, whose elements the
    next call may change."""

    def __init__(self, params: dict[str, Var]) -> None:
        self._params, self._arrays = params, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        view = self.take(name).view()
        view.flags.writeable = False
        return view

    def __setitem__(self, name: str, value: Any) -> None:
        self.put(name, np.array(self.checked(name, value), order="C"))

    def checked(self, name: str, value: Any) -> Any:
        """Returns a value as an array that matches the parameter of a state."""
        param = self._param(name)
        try:
            array = as_value(param.struct_info, value)
        except ShapeMismatchError as error:
            raise located(error, f"state {name}") from error.__cause__
        match([(param.struct_info, array, f"state {name}")], Activation({}, {}))
        return array

    def __delitem__(self, name: str) -> None:
        raise StructIRError(f"state {name}: a buffer of a program cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def _param(self, name: str) -> Var:
        if name not in self._params:
            names = ", ".join(self._params)
            raise StructIRError(f"state: expected one of {names}, found {name!r}")
        return self._params[name]

    def take(self, name: str) -> Any:
        """Returns the array of a state itself."""
        self._param(name)
        if name not in self._arrays:
            raise StructIRError(
                f"state {name}: the module has no initial value; set it: "
                f"`state.buffers[{name!r}] = array`"
            )
        return self._arrays[name]

    def put(self, name: str, array: Any) -> None:
        """Replaces the array of a state."""
        self._arrays[name] = array


def _interpreted(module: IRModule) -> Run:
    """Returns calls of a module by the interpreter, which overwrites no argument."""
    check_well_formed(module)
    interpreter = Interpreter(module)
    return lambda name, _, args: owning(interpreter.global_function(name))(*args)
