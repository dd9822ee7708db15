"""Executables whose first calls run on the interpreter, while a thread compiles the module."""

from __future__ import annotations

import concurrent.futures.thread  # it cannot be imported after the end of the main thread
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from structir.analysis.internal_functions import only_function
from structir.interpret.early_release import ReleasingInterpreter
from structir.interpret.ownership import donating, owning
from structir.interpret.state import State
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.system.locks import cached_property, new_lock

if TYPE_CHECKING:
    from structir.runtime.executable import Executable

Value = Any
TURN = 1e-4  # seconds that the compiling thread may hold the GIL while a call waits for it


class EagerExecutable:
    """A module that is being compiled. `exe["main"](*arrays)` calls a function; all calls begun
    after compilation run compiled kernels.

    `state` and `new_state` do not wait for compilation; other methods and properties of
    `Executable` do. An error of compilation is raised by the next call, and by each method.
    """

    def __init__(self, module: IRModule, make: Callable[[], Executable]) -> None:
        self.module = module
        self._interpreter = ReleasingInterpreter(module)
        self._traceback: TracebackType | None = None  # of an error of compilation
        self._compiled: concurrent.futures.Future[Executable] = concurrent.futures.Future()
        # Not a daemon: the process must not end while LLVM runs.
        threading.Thread(target=self._compile, args=(make,), name="structir-compile").start()

    def _compile(self, make: Callable[[], Executable]) -> None:
        try:
            self._compiled.set_result(make())
        except BaseException as error:
            self._traceback = error.__traceback__
            self._compiled.set_exception(error)

    @property
    def is_compiled(self) -> bool:
        """Whether compilation has ended, with or without an error."""
        return self._compiled.done()

    def wait(self, timeout: float | None = None) -> Executable:
        """Waits for compilation; returns the executable, or raises the error of compilation.

        Raises TimeoutError after `timeout` seconds.
        """
        error = self._compiled.exception(timeout)
        if error is not None:
            raise error.with_traceback(self._traceback)  # each `raise` adds to the traceback
        return self._compiled.result()

    def __getitem__(self, name: str) -> Callable[..., Value]:
        """Returns a function of the module, which is called with arrays."""
        if self.is_compiled:
            return self.wait()[name]
        function = self.module.functions.get(name)
        params = [p.name for p in function.params] if isinstance(function, Function) else []
        interpreted = owning(self._interpreter.global_function(name))
        interpreted = donating(name, function, interpreted)

        def call(*args: Value, **names: Value) -> Value:
            has_out = "out" in names and "out" not in params
            if self.is_compiled or (has_out and names["out"] is not None):
                return self.wait()[name](*args, **names)  # the interpreter has no `out`
            if has_out:
                del names["out"]
            with _short_turns:
                return interpreted(*args, **names)

        return call

    @cached_property
    def state(self) -> State:
        """The state of the program, as of `Executable`."""
        return self.new_state()

    def new_state(self) -> State:
        """Returns another state with the initial values, independent of others."""
        return State(self.module, self.run_donating)

    def run_donating(self, name: str, donated: Mapping[int, int], args: Sequence[Value]) -> Value:
        """Calls a function with donated arguments: `donated` maps their numbers to results."""
        if self.is_compiled:
            return self.wait().run_donating(name, donated, args)
        return self[name](*args)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Calls the only public function of the module."""
        return self[only_function(self.module)](*args, **names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.module)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.wait(), name)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an executable cannot be pickled: use `exe.save(path)` and `structir.load`")

    def __repr__(self) -> str:
        return repr(self.wait()) if self.is_compiled else "<EagerExecutable: compiling>"


class _ShortTurns:
    """A context in which Python threads take the GIL in short turns.

    NumPy releases the GIL in most ops. A thread that compiles would keep it for milliseconds after
    each of them.
    """

    def __init__(self) -> None:
        self._lock, self._calls, self._before = new_lock(), 0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._calls == 0:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(TURN, self._before))
            self._calls += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0:
                sys.setswitchinterval(self._before)


_short_turns = _ShortTurns()
