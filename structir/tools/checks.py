"""The fuzzer's checks: properties of every program. A violated check raises an error."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.variables import walk
from structir.analysis.well_formed import check_well_formed
from structir.distributed.random_cuts import random_mesh_program
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
from structir.ir.op import find_op
from structir.ir.structural import structural_equal, structural_hash
from structir.passes import all_passes
from structir.passes.base import PassContext
from structir.passes.canonicalise_bindings import canonicalise_bindings
from structir.passes.dead_code_elimination import dead_code_elimination
from structir.passes.manager.comparison import same
from structir.passes.manager.input_sample import InputSample, outcome
from structir.passes.manager.samples import answers, samples_of
from structir.passes.manager.verifying import VerifyIR
from structir.printer.parser.parser import parse
from structir.solver.program.inference import infer
from structir.targets.compile import compile as compiled
from structir.targets.cuda.arrays import DeviceArray
from structir.targets.cuda.target import use_simulator
from structir.tools.coarsening import coarsened_module, with_open_parameters
from structir.tools.comparison import Disagreement, require_agreement, result
from structir.tools.declared_values import sampled_subclass, with_declared_values
from structir.tools.unlabelled import without_labels

RUNS = 2  # sets of arguments for a program
SIZES = (1, 2, 3)  # `infer` assumes sizes of at least 1
DTYPES = ("float32", "float64", "int32")  # of dtype variables
WORKERS = (1, 2, 3, 4)
EMPTY_ONLY, LABELS = "E0410", "E0406"  # errors of `infer` that runs do not raise
NO_KERNEL = "has no CUDA kernel"  # message of the backend for unsupported programs

Check = Callable[[IRModule, int], None]
CHECKS: dict[str, Check] = {}


def check(rule: Check) -> Check:
    """Registers a check under the name of its function; its second parameter is a random seed."""
    CHECKS[rule.__name__] = rule
    return rule


def run_check(name: str, module: IRModule, seed: int) -> None:
    """Runs one check without warnings about the program. Raises the errors of the check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        CHECKS[name](module, seed)


def _functions(module: IRModule) -> dict[str, Function]:
    """Returns the functions that are callable from outside."""
    return {
        name: function
        for name, function in module.functions.items()
        if isinstance(function, Function) and not function.attrs.get(PRIVATE)
    }


def _runner(module: IRModule, name: str) -> Callable[..., Any]:
    return lambda *arguments: interpret(module, name, *arguments)


# Printing and parsing


@check
def text(module: IRModule, seed: int) -> None:
    """A printed program parses to an equal, well-formed program without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DiagnosticWarning)
        require_round_trip(module)


@check
def coarse_text(module: IRModule, seed: int) -> None:
    """A program with coarser StructInfos than the inferred ones, and with values of every
    StructInfo subclass, parses back unchanged."""
    rng = Random(seed)
    with sampled_subclass():
        require_round_trip(coarsened_module(with_declared_values(module, rng), rng))


@check
def pass_text(module: IRModule, seed: int) -> None:
    """The output of every pass parses back unchanged, also for coarser StructInfos."""
    for program in (module, coarsened_module(module, Random(seed))):
        checked: dict[int, IRModule] = {}  # by identity: most passes return the program itself
        for each in all_passes():
            try:
                after = each(program)
            except StructIRError:  # of a program that the pass does not accept
                continue
            if id(after) in checked:
                continue
            checked[id(after)] = after
            try:
                require_round_trip(after)
            except Exception as error:
                error.add_note(f"pass {each.name}")
                raise


def require_round_trip(module: IRModule) -> None:
    """Raises Disagreement unless the printed program parses to an equal one with equal text."""
    check_well_formed(module)
    source = module.script()
    parsed = parse(source)
    if not structural_equal(parsed, module) or parsed.script() != source:
        raise Disagreement(f"the printed program parses to\n{parsed.script()}")
    if structural_hash(parsed) != structural_hash(module):
        raise Disagreement("the printed program parses to an equal program with another hash")


# Inferred StructInfo against run-time values


@attrs.frozen(eq=False)
class CheckingInterpreter(Interpreter):
    """An interpreter that checks every value against the StructInfo of its variable."""

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        Interpreter._bind(self, binding, value, scope)
        try:
            match([(binding.var.struct_info, value, binding.var.name)], scope)
        except StructIRError as error:
            raise Disagreement(f"a value violates its StructInfo: {error}") from error


def _run_checked(module: IRModule, seed: int) -> Iterator[tuple[str, list[Any], Any]]:
    """Yields name, arguments and result of each run; checks all values against their StructInfo."""
    for name, function in _functions(module).items():
        for arguments, expected in answers(module, name, function, RUNS, seed):
            with np.errstate(all="ignore"):
                CheckingInterpreter(module).global_function(name)(*arguments)
            yield name, arguments, expected


@check
def deduction(module: IRModule, seed: int) -> None:
    """The inferred StructInfo of every value holds in every run."""
    for _ in _run_checked(module, seed):
        pass


def _runs(module: IRModule, name: str, seed: int) -> bool:
    """Returns whether some random input gives a result; programs with kernels are not run."""
    function = module.functions[name]
    if not isinstance(function, Function):
        return True
    return any(True for _ in answers(module, name, function, 1, seed))


@check
def solver(module: IRModule, seed: int) -> None:
    """`structir.infer` rejects no program that runs; its result is well formed, holds at run time,
    and is a fixed point.

    It assumes sizes of at least 1 and equal labels of unified axes, and may narrow signatures to
    these. The rest is checked without labels.
    """
    runs = list(_run_checked(module, seed))
    plain, narrowed = without_labels(module), False
    try:
        completed = infer(module)
    except StructInfoError as error:
        code = error.diagnostics[0].code
        if code == LABELS:
            solver(plain, seed)
        if code in (EMPTY_ONLY, LABELS):
            return
        if all(_runs(module, name, seed) for name in module.functions):
            raise
        return  # invalid calls are rejected even if they are never reached
    check_well_formed(completed)
    for name, arguments, expected in runs:
        try:
            with np.errstate(all="ignore"):
                actual = CheckingInterpreter(completed).global_function(name)(*arguments)
        except (ShapeMismatchError, Disagreement) as error:
            if any(_has_empty(each) for each in arguments):
                continue
            narrowed = isinstance(error, ShapeMismatchError)
            if not narrowed or plain is module:
                raise
            continue
        if not same(expected, actual, 0):
            raise Disagreement(
                f"infer changes the result of {name}: expected {expected!r}, found {actual!r}"
            )
    second = infer(completed)
    if not structural_equal(second, completed):
        raise Disagreement(f"a second run infers more:\n{completed.script()}\n{second.script()}")
    if narrowed:
        solver(plain, seed)


@check
def erasure(module: IRModule, seed: int) -> None:
    """Where annotations of parameters are erased, `structir.infer` rejects no arguments that the
    erased program accepts, and changes no result."""
    erased = with_open_parameters(module, Random(seed))
    runs = list(_accepted_runs(erased, module, seed))
    try:
        inferred = infer(erased)
    except StructInfoError as error:
        if error.diagnostics[0].code in (EMPTY_ONLY, LABELS):
            return
        if {name for name, *_ in runs} >= _functions(module).keys():
            raise
        return  # some function accepts no arguments
    check_well_formed(inferred)
    for name, arguments, expected in runs:
        with np.errstate(all="ignore"):
            actual = CheckingInterpreter(inferred).global_function(name)(*arguments)
        if not same(expected, actual, 0):
            raise Disagreement(
                f"infer changes the result of {name}: expected {expected!r}, found {actual!r}"
            )


def _accepted_runs(
    erased: IRModule, module: IRModule, seed: int
) -> Iterator[tuple[str, list[Any], Any]]:
    """Yields runs of a program at arguments of the annotations before they were erased."""
    for name, function in _functions(module).items():
        for run in range(RUNS):
            number = seed * RUNS + run
            arguments = random_arguments(function, number, among=SIZES, dtypes=DTYPES)
            expected = result(_runner(erased, name), arguments)
            if not isinstance(expected, StructIRError):
                yield name, arguments, expected


def _has_empty(value: Any) -> bool:
    """Returns whether some tensor or shape in a value has a size of 0."""
    if isinstance(value, tuple):
        return any(each == 0 if isinstance(each, int) else _has_empty(each) for each in value)
    return getattr(value, "size", 1) == 0


# Passes


@check
def passes(module: IRModule, seed: int) -> None:
    """Every pass keeps the program well formed and preserves its results; a second run changes
    nothing."""
    expected_results = {
        name: list(answers(module, name, function, 1, seed))
        for name, function in _functions(module).items()
    }
    with PassContext([VerifyIR()]):
        for each in all_passes():
            if each.comparable:
                try:
                    _check_pass(each, module, expected_results)
                except Exception as error:
                    error.add_note(f"pass {each.name}")
                    raise


def _check_pass(each: Any, module: IRModule, expected_results: dict[str, list[Any]]) -> None:
    after = each(module)
    if after is module:
        return
    for name, cases in expected_results.items():
        for arguments, expected in cases:
            actual = result(_runner(after, name), arguments)
            if not same(expected, actual, each.tolerance):
                try:  # intermediate rounding may differ, as in kernels
                    require_agreement(module, name, arguments, expected, actual)
                except Disagreement as error:
                    raise Disagreement(f"{each} changes the result of {name}: {error}") from None
    if each.idempotent is True:
        second = each(after)
        if second is not after and not structural_equal(second, after):
            raise Disagreement(f"{each} is not idempotent: a second run changes the program")


@check
def rejections(module: IRModule, seed: int) -> None:
    """No pass drops a check: inputs that a program rejects are rejected after every pass, after
    `infer` and by compiled code, except for errors of ops that compute unused values."""
    used = dead_code_elimination(canonicalise_bindings(module))
    live = dead_code_elimination(module)

    def is_check(name: str, sample: InputSample) -> bool:
        of_op = find_op(str(sample.expected).partition(":")[0]) is not None
        program = used if of_op else live
        return program is module or isinstance(
            outcome(program, name, sample.arguments), StructIRError
        )

    rejected = [
        (name, sample.arguments, sample.expected)
        for name, function in _functions(module).items()
        for sample in samples_of(module, name, function, 1, seed, edges=True)
        if not sample.accepted and is_check(name, sample)
    ]
    if not rejected:
        return
    for each in all_passes():
        if each.comparable and (after := each(module)) is not module:
            _require_rejected(after, each.name, rejected)
    with contextlib.suppress(StructInfoError):
        _require_rejected(infer(module), "infer", rejected)
    executable = compiled(module)
    for name, arguments, expected in rejected:
        if not isinstance(result(executable[name], arguments), StructIRError):
            raise Disagreement(f"compiled code accepts inputs of {name}, expected: {expected}")


def _require_rejected(
    module: IRModule, change: str, rejected: list[tuple[str, list[Any], Any]]
) -> None:
    for name, arguments, expected in rejected:
        if not isinstance(outcome(module, name, arguments), StructIRError):
            raise Disagreement(f"{change} drops a check of {name}: {expected}")


# Other backends


@check
def cpu(module: IRModule, seed: int) -> None:
    """The compiled program returns the results of the interpreter, or raises an error where it
    does."""
    executable = compiled(module)
    for name, function in _functions(module).items():
        for run in range(RUNS):
            arguments = random_arguments(function, seed * RUNS + run)
            expected = result(_runner(module, name), arguments)
            actual = result(executable[name], arguments)
            if isinstance(expected, StructIRError) and not isinstance(actual, StructIRError):
                # unused values are not computed and raise no errors
                expected = result(_runner(dead_code_elimination(module), name), arguments)
            if isinstance(expected, StructIRError) != isinstance(actual, StructIRError):
                raise Disagreement(f"interpreted: {expected!r}\ncompiled: {actual!r}")
            if not isinstance(expected, StructIRError):
                require_agreement(module, name, arguments, expected, actual)


@check
def cuda(module: IRModule, seed: int) -> None:
    """On numba's GPU simulator each function returns the results of the interpreter, if all of its
    ops have GPU kernels."""
    use_simulator()
    for name, function in _functions(module).items():
        try:
            executable = compiled(_with_callees(module, name), target="cuda")
        except DiagnosticError as error:
            if NO_KERNEL not in str(error):
                raise
            continue
        for arguments, expected in answers(module, name, function, 1, seed):
            actual = result(executable[name], arguments)
            if isinstance(actual, DiagnosticError) and NO_KERNEL in str(actual):
                continue  # a function of any rank is compiled by its first call
            require_agreement(module, name, arguments, expected, _to_host(actual))


def _with_callees(module: IRModule, name: str) -> IRModule:
    """Returns the module of one function and its callees."""
    functions, todo = {}, [name]
    while todo:
        name = todo.pop()
        functions[name] = module.functions[name]
        called = [part.name for part in walk(functions[name]) if isinstance(part, GlobalVar)]
        todo += [callee for callee in called if callee not in functions]
    return module.with_functions(functions)


def _to_host(value: Any) -> Any:
    """Copies the arrays of a result to host memory."""
    if isinstance(value, tuple):
        return tuple(map(_to_host, value))
    return value.copy_to_host() if isinstance(value, DeviceArray) else value


@check
def shards(module: IRModule, seed: int) -> None:
    """Each function in shards returns the same result as unsplit, or raises an error with a code
    before it runs; also with coarser StructInfos, and with parameters of unknown rank or dtype."""
    variant = seed % 3
    if variant:
        change = coarsened_module if variant == 1 else with_open_parameters
        module = change(module, Random(seed))
    for name, function in _functions(module).items():
        try:
            cases = list(answers(module, name, function, 1, seed))
        except StructIRError:
            if variant == 0:
                raise
            continue  # no run accepts the changed program
        for arguments, expected in cases:
            try:
                sharded = shard(module, name, workers=WORKERS[seed % len(WORKERS)])
                sharded.plan(*arguments)
            except StructIRError as error:
                if not has_code(error):
                    raise
                continue  # the function cannot be split
            actual = result(sharded, arguments)
            if isinstance(actual, StructIRError):
                raise Disagreement(f"sharded execution fails: {actual}") from actual
            require_agreement(module, name, arguments, expected, actual)


def has_code(error: StructIRError) -> bool:
    """Whether an error is one of the documented ones."""
    return "[E" in str(error)


@check
def mesh(module: IRModule, seed: int) -> None:
    """Each function that can be planned returns the same result on a mesh with random cuts."""
    for name, function in _functions(module).items():
        for arguments, expected in answers(module, name, function, 1, seed):
            try:
                program = random_mesh_program(module, name, arguments, seed)
            except StructIRError:
                continue  # the function cannot be split
            actual = result(program, arguments)
            if isinstance(actual, StructIRError):
                raise Disagreement(f"execution on a mesh fails: {actual}") from actual
            require_agreement(module, name, arguments, expected, actual)
