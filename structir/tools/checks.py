"""What must hold of every program: a check takes one, and raises where it does not hold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.variables import walk
from structir.analysis.well_formed import check_well_formed
from structir.backend.compile import compile as compiled
from structir.backend.cuda.arrays import DeviceArray
from structir.backend.cuda.target import use_simulator
from structir.distributed.sharded import shard
from structir.errors import (
    DiagnosticError,
    DiagnosticWarning,
    ShapeMismatchError,
    StructInfoError,
    StructIRError,
)
from structir.interpret import interpret
from structir.interpret.argument_checks import match
from structir.interpret.arguments import random_arguments
from structir.interpret.interpreter import Interpreter
from structir.interpret.scope import Activation, Value
from structir.ir.expr import Binding, Function, GlobalVar
from structir.ir.module import IRModule
from structir.ir.structural import structural_equal, structural_hash
from structir.passes import all_passes
from structir.passes.base import PassContext
from structir.passes.dead_code_elimination import dead_code_elimination
from structir.passes.manager.comparison import same
from structir.passes.manager.verifying import VerifyIR, answers
from structir.printer.parser.parser import parse
from structir.solver.program.inference import infer
from structir.tools.comparison import Disagreement, require_agreement, result

RUNS = 2  # sets of arguments for a program
WORKERS = (1, 2, 3, 5)
NO_KERNEL = "has no CUDA kernel"  # says the backend of what it refuses

Check = Callable[[IRModule, int], None]
CHECKS: dict[str, Check] = {}


def check(rule: Check) -> Check:
    """Register a check under its function's name; the number it gets is the seed of its draws."""
    CHECKS[rule.__name__] = rule
    return rule


def run_check(name: str, module: IRModule, seed: int) -> None:
    """Run one check without warnings about the program; raises what the check raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        CHECKS[name](module, seed)


def _functions(module: IRModule) -> dict[str, Function]:
    """The functions that may be called from outside."""
    return {
        name: function
        for name, function in module.functions.items()
        if isinstance(function, Function) and not function.attrs.get(PRIVATE)
    }


def _runner(module: IRModule, name: str) -> Callable[..., Any]:
    return lambda *arguments: interpret(module, name, *arguments)


# ---- text and form


@check
def text(module: IRModule, seed: int) -> None:
    """Printed and read again it is the same program, and well formed, without a warning."""
    check_well_formed(module)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DiagnosticWarning)
        read = parse(module.script())
    if not structural_equal(read, module):
        raise Disagreement(f"it is read back as\n{read.script()}")
    if structural_hash(read) != structural_hash(module):
        raise Disagreement("it is read back as an equal program of another hash")


# ---- deduction: what is stated of every value, held against real values


@attrs.frozen(eq=False)
class CheckingInterpreter(Interpreter):
    """An interpreter that holds every value against the StructInfo of its variable."""

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        Interpreter._bind(self, binding, value, scope)
        try:
            match([(binding.var.struct_info, value, binding.var.name)], scope)
        except StructIRError as error:
            raise Disagreement(f"a StructInfo does not hold: {error}") from error


def _watch(module: IRModule, seed: int) -> Iterator[tuple[str, list[Any], Any]]:
    """The answers of all functions, every value on the way held against what is stated of it."""
    for name, function in _functions(module).items():
        for arguments, expected in answers(module, name, function, RUNS, seed):
            with np.errstate(all="ignore"):
                CheckingInterpreter(module).global_function(name)(*arguments)
            yield name, arguments, expected


@check
def deduction(module: IRModule, seed: int) -> None:
    """What is stated of every value holds in every run."""
    for _ in _watch(module, seed):
        pass


def _runs(module: IRModule, name: str, seed: int) -> bool:
    """Whether some drawn input gives an answer; kernels are not asked."""
    function = module.functions[name]
    if not isinstance(function, Function):
        return True
    return any(True for _ in answers(module, name, function, 1, seed))


@check
def solver(module: IRModule, seed: int) -> None:
    """`structir.infer` refuses no program that runs; what it finds is well formed, true of real
    runs, and not changed by a second time. It takes sizes to be at least 1, and may check that."""
    known = list(_watch(module, seed))
    try:
        completed = infer(module)
    except StructInfoError:
        if all(_runs(module, name, seed) for name in module.functions):
            raise
        return  # what cannot run is refused, whether or not anything calls it
    check_well_formed(completed)
    for name, arguments, expected in known:
        try:
            with np.errstate(all="ignore"):
                found = CheckingInterpreter(completed).global_function(name)(*arguments)
        except (ShapeMismatchError, Disagreement):
            if any(_has_nothing(each) for each in arguments):
                continue
            raise
        if not same(expected, found, 0):
            raise Disagreement(f"infer changes what {name} computes: {expected!r} and {found!r}")
    again = infer(completed)
    if not structural_equal(again, completed):
        raise Disagreement(f"a second time gives more:\n{completed.script()}\n{again.script()}")


def _has_nothing(value: Any) -> bool:
    """Whether some tensor or shape in a value has a size of 0."""
    if isinstance(value, tuple):
        return any(each == 0 if isinstance(each, int) else _has_nothing(each) for each in value)
    return getattr(value, "size", 1) == 0


# ---- passes


@check
def passes(module: IRModule, seed: int) -> None:
    """Every pass keeps it well formed and keeps what it computes; a second time changes nothing."""
    known = {
        name: list(answers(module, name, function, 1, seed))
        for name, function in _functions(module).items()
    }
    with PassContext([VerifyIR()]):
        for each in all_passes():
            if each.comparable:
                try:
                    _one_pass(each, module, known)
                except Exception as error:
                    error.add_note(f"pass {each.name}")
                    raise


def _one_pass(each: Any, module: IRModule, known: dict[str, list[Any]]) -> None:
    after = each(module)
    if after is module:
        return
    for name, cases in known.items():
        for arguments, expected in cases:
            found = result(_runner(after, name), arguments)
            if not same(expected, found, each.tolerance):
                try:  # it may round elsewhere, as kernels do
                    require_agreement(module, name, arguments, expected, found)
                except Disagreement as error:
                    raise Disagreement(f"{each} changes what {name} computes: {error}") from None
    if each.idempotent is True:
        again = each(after)
        if again is not after and not structural_equal(again, after):
            raise Disagreement(f"{each}, a second time, changes the program again")


# ---- other ways to run


@check
def cpu(module: IRModule, seed: int) -> None:
    """Compiled for the CPU it gives what the interpreter gives, or refuses what it refuses."""
    executable = compiled(module)
    for name, function in _functions(module).items():
        for run in range(RUNS):
            arguments = random_arguments(function, seed * RUNS + run)
            expected = result(_runner(module, name), arguments)
            found = result(executable[name], arguments)
            if isinstance(expected, StructIRError) and not isinstance(found, StructIRError):
                # what nothing reads is not computed, and cannot go wrong
                expected = result(_runner(dead_code_elimination(module), name), arguments)
            if isinstance(expected, StructIRError) != isinstance(found, StructIRError):
                raise Disagreement(f"interpreted: {expected!r}\ncompiled: {found!r}")
            if not isinstance(expected, StructIRError):
                require_agreement(module, name, arguments, expected, found)


@check
def cuda(module: IRModule, seed: int) -> None:
    """On numba's simulator of a GPU each function gives what the interpreter gives, where all of
    its ops have kernels for a GPU."""
    use_simulator()
    for name, function in _functions(module).items():
        try:
            executable = compiled(_with_callees(module, name), target="cuda")
        except DiagnosticError as error:
            if NO_KERNEL not in str(error):
                raise
            continue
        for arguments, expected in answers(module, name, function, 1, seed):
            found = result(executable[name], arguments)
            require_agreement(module, name, arguments, expected, _on_host(found))


def _with_callees(module: IRModule, name: str) -> IRModule:
    """The module of one function and of what it calls."""
    kept, todo = {}, [name]
    while todo:
        name = todo.pop()
        kept[name] = module.functions[name]
        called = [part.name for part in walk(kept[name]) if isinstance(part, GlobalVar)]
        todo += [callee for callee in called if callee not in kept]
    return module.with_functions(kept)


def _on_host(value: Any) -> Any:
    """A result, its arrays in the memory of the host."""
    if isinstance(value, tuple):
        return tuple(map(_on_host, value))
    return value.copy_to_host() if isinstance(value, DeviceArray) else value


@check
def shards(module: IRModule, seed: int) -> None:
    """In shards each function gives what it gives as a whole, where it can be cut."""
    for name, function in _functions(module).items():
        sharded = shard(module, name, workers=WORKERS[seed % len(WORKERS)])
        for arguments, expected in answers(module, name, function, 1, seed):
            try:
                sharded.plan(*arguments)
            except StructIRError:
                continue  # it says why it cannot be cut
            found = result(sharded, arguments)
            if isinstance(found, StructIRError):
                raise Disagreement(f"planned, but not run in shards: {found}") from found
            require_agreement(module, name, arguments, expected, found)
