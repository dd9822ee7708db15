"""Ops on operands of unknown rank, dtype and rows: a result or one diagnostic, for all attributes.

A call is built from an example of the op, with less known of its operands and with other values of
its attributes. An accepted call prints and parses back. Run on the arrays of the example, the
interpreter and the compiled program agree, and the result has the inferred StructInfo.
"""

import math
import warnings
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.analysis.axes import tensor
from structir.build import BlockBuilder
from structir.errors import DiagnosticError, StructIRError
from structir.ir import Op, TensorStructInfo, Tuple, Var
from structir.ir.axes import RowVar
from structir.ir.dims import sym
from structir.opdef.attributes import InvalidAttribute
from structir.tools.calls import CallGenerator
from structir.tools.comparison import require_agreement, result
from tests.ops.built_in import BUILT_IN_OPS

OPS = {n: op for n, op in BUILT_IN_OPS.items() if op.definition.examples and op.definition.pure}
MAX_ELEMENTS = 10**7
UNUSUAL = (
    0, 1, -1, 5, -9, 64, 10**6, 2**31, 2**63, -(2**63), True, 0.0, -1.5, 1e300, float("nan"), "",
    "x", None, (), (0,), (5,), (-9,), (0, 0), (0, 2), (1, 5), (-1, -4), (-1, -1), (2, 1, 0),
    (3,) * 70, (10**9, 10**9), (0.5, 2.0), [5], [1, 2], [(1,)], "float32", "NHWC", "ij->ji", "*s",
    (1, (2, 3)), (2**63, 1),
)  # fmt: skip


def less_known(rng: Random, array: np.ndarray[Any, Any], rows: list[RowVar]) -> TensorStructInfo:
    """Returns a StructInfo that admits the array, and mostly knows less than all of it."""
    dtype = None if rng.random() < 0.15 else array.dtype.name
    shape = array.shape
    row = rng.choice(rows) if rng.random() < 0.4 else RowVar("r")
    rows.append(row)
    start = rng.randint(0, len(shape))
    sizes = [sym(f"n{n}") if n > 1 and rng.random() < 0.7 else n for n in shape]
    return rng.choice(
        [
            TensorStructInfo(None, dtype),
            TensorStructInfo(None, dtype),
            TensorStructInfo(None, dtype, len(shape)),
            TensorStructInfo(tuple(sizes), dtype),
            TensorStructInfo(tuple(shape), dtype),
            tensor((row,), dtype),
            tensor((row, *sizes[start:]), dtype),
            tensor((*sizes[:start], row), dtype),
            tensor((*sizes[:start], row, *sizes[start + 1 :]), dtype),
        ]
    )


class CallBuilder:
    """Builds one call with variables of less known StructInfo, and their values."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.rows = [RowVar("r"), RowVar("s")]
        self.params: list[Var] = []
        self.values: list[Any] = []

    def operand(self, value: Any) -> Any:
        if hasattr(value, "array"):
            value = value.array()
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            info = less_known(self.rng, array, self.rows)
            self.params.append(Var(f"x{len(self.params)}", info))
            self.values.append(array)
            return self.params[-1]
        if isinstance(value, list) and value and all(hasattr(v, "dtype") for v in value):
            return Tuple(tuple(map(self.operand, value)))
        return value

    def call(self, op: Op) -> Any:
        definition: Any = op.definition
        args, keywords = self.rng.choice(definition.examples)
        parameters = definition.signature.parameters
        arguments = dict(zip([p.name for p in parameters], args, strict=False)) | keywords
        arguments = {name: self.operand(value) for name, value in arguments.items()}
        attributes = [p for p in parameters if p.kind is not None]
        if attributes and self.rng.random() < 0.6:
            for parameter in self.rng.sample(
                attributes, self.rng.randint(1, min(2, len(attributes)))
            ):
                arguments[parameter.name] = self.attribute(parameter)
        return op(**arguments)

    def attribute(self, parameter: Any) -> Any:
        if self.rng.random() < 0.5:
            return self.rng.choice(UNUSUAL)
        first = self.params[0] if self.params else Var("x", TensorStructInfo((2,), "float32"))
        generator = CallGenerator(self.rng)
        value = generator.candidate(parameter.kind, first.struct_info, [2, sym("n2"), sym("k")])
        try:
            parameter.kind.normalize(value)
        except InvalidAttribute:
            return self.rng.choice(UNUSUAL)
        return value


def program(name: str, seed: int) -> tuple[Any, list[Any]] | None:
    """Returns a program of one call and its arguments; None if the call is rejected."""
    builder = CallBuilder(Random(f"{name} {seed}"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call = builder.call(OPS[name])
            blocks = BlockBuilder()
            with blocks.function("main", builder.params):
                blocks.emit_func_output(blocks.emit(call))
            module = blocks.get()
            check_well_formed(module)
        except DiagnosticError as error:
            assert error.diagnostics
            return None
    return module, builder.values


def programs(name: str, seeds: range) -> Iterator[tuple[int, Any, list[Any]]]:
    for seed in seeds:
        try:
            module = program(name, seed)
        except Exception as error:
            error.add_note(f"{name} seed {seed}")
            raise
        if module is not None:
            yield seed, *module


def fills_memory(info: Any) -> bool:
    """Returns whether a result is large, but not so large that its allocation fails."""
    if hasattr(info, "fields"):
        return any(map(fills_memory, info.fields))
    sizes = [d for d in getattr(info, "dims", None) or () if isinstance(d, int)]
    return MAX_ELEMENTS < math.prod(sizes) < 2**48


def check(module: Any, values: list[Any], compiled: bool) -> None:
    """Checks the text, the result of the interpreter, and that of the compiled program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert structir.structural_equal(structir.parse(module.script()), module)
        if fills_memory(module["main"].ret_struct_info):
            return
        expected = result(lambda *args: structir.interpret(module, "main", *args), values)
        if not compiled:
            return
        actual = result(structir.compile(module)["main"], values)
        raised = isinstance(expected, StructIRError), isinstance(actual, StructIRError)
        assert raised[0] == raised[1], f"interpreted: {expected!r}\ncompiled: {actual!r}"
        if not raised[0]:
            require_agreement(module, "main", values, expected, actual)


@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", sorted(OPS))
def test_unknown_operands_give_a_result_or_one_diagnostic(name: str) -> None:
    for seed, module, values in programs(name, range(12)):
        try:
            check(module, values, False)
        except Exception as error:
            error.add_note(f"{name} seed {seed}\n{module.script()}")
            raise


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", sorted(OPS))
def test_unknown_operands_are_compiled_as_interpreted(name: str) -> None:
    for seed, module, values in programs(name, range(100, 101)):
        try:
            check(module, values, True)
        except Exception as error:
            error.add_note(f"{name} seed {seed}\n{module.script()}")
            raise
