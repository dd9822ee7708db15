"""Exported StableHLO: accepted by JAX's parser and verifier of MLIR, and run by JAX on the CPU with
the results of the interpreter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import structir
from structir.errors import DiagnosticError, StructIRError
from structir.export import save_stablehlo, to_stablehlo
from structir.interpret.arguments import random_arguments
from structir.ir import BlockBuilder, IRModule
from structir.ir.struct_info import TupleStructInfo
from structir.tools import cli
from tests.data.traced_functions import CASES
from tests.export.hlo import run
from tests.export.programs import (
    BRANCHES,
    EINSUMS,
    SCAN,
    SHARED,
    TUPLES,
    einsum_program,
    random_program,
)
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import symbolic_call

EXAMPLES: dict[str, Any] = {
    name: op.definition.examples for name, op in BUILT_IN_OPS.items() if op.definition.examples
}
EXPORTABLE = 183  # ops with all examples exported; a new mapping may raise it
EXPECTED = np.load(Path(__file__).parents[1] / "data" / "traced_functions.npz")
TOLERANCE = {"float16": 2e-2, "bfloat16": 5e-2}


def flat(values: Any) -> list[Any]:
    if isinstance(values, dict):
        values = [values[key] for key in sorted(values)]
    if isinstance(values, tuple | list):
        return [each for field in values for each in flat(field)]
    return [np.asarray(values)]


def infos(info: Any) -> list[Any]:
    if isinstance(info, TupleStructInfo):
        return [each for field in info.fields for each in infos(field)]
    return [info]


def dims_of(module: IRModule, name: str = "main") -> list[Any]:
    main: Any = module[name]
    fields = [each for p in main.params for each in infos(p.struct_info)]
    return [tuple([d if isinstance(d, int) else str(d) for d in f.dims]) for f in fields]


def assert_same(expected: list[Any], results: list[Any], tolerance: float = 1e-4) -> None:
    for wanted, result in zip(expected, results, strict=True):
        assert (wanted.dtype, wanted.shape) == (result.dtype, result.shape)
        error = TOLERANCE.get(wanted.dtype.name, tolerance)
        wide = [x.astype("float64") for x in (result, wanted)]
        np.testing.assert_allclose(*wide, rtol=error, atol=error)


def check(module: IRModule, *inputs: Any) -> str:
    """Exports and runs a program; its results are those of the interpreter."""
    text: str = to_stablehlo(module)
    result = structir.interpret(module, "main", *inputs)
    if isinstance(module["main"].ret_struct_info, structir.ir.ShapeStructInfo):
        result = np.array(result, np.int64)
    expected = flat(result)
    assert_same(expected, run(text, flat(list(inputs)), expected))
    return text


def check_static(module: IRModule, seed: int, sizes: dict[str, int]) -> None:
    """Checks a program with constant sizes, which may be 0."""
    names = {d for dims in dims_of(module) for d in dims}
    inputs = random_arguments(module["main"], seed, sizes)
    text = to_stablehlo(module, sizes={k: n for k, n in sizes.items() if k in names})
    expected = flat(structir.interpret(module, "main", *inputs))
    if not isinstance(module["main"].ret_struct_info, structir.ir.ShapeStructInfo):
        assert_same(expected, run(text, inputs, expected))


def parsed(source: str) -> IRModule:
    module: IRModule = structir.parse(source)
    return module


# ---- ops


def examples(name: str, symbolic: bool) -> Iterator[tuple[IRModule, tuple[Any, ...]]]:
    """Yields a program for each example of an op, and its arguments."""
    for args, keywords in EXAMPLES[name]:
        sizes: Any = {} if symbolic else None
        call, known = symbolic_call(name, args, keywords, sizes)  # type: ignore[no-untyped-call]
        builder = BlockBuilder()
        with builder.function("main", list(known)):
            builder.emit_func_output(builder.emit(call))
        yield builder.get(), tuple(known.values())


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_have_the_same_results_or_are_reported(name: str) -> None:
    for module, inputs in examples(name, symbolic=True):
        try:
            check(module, *inputs)
        except DiagnosticError as error:
            assert error.diagnostics[0].code == "E0812"


def has_form(module: IRModule) -> bool:
    try:
        return bool(to_stablehlo(module))
    except DiagnosticError:
        return False


def test_most_ops_have_a_form() -> None:
    ops_with_form = [n for n in EXAMPLES if all(has_form(m) for m, _ in examples(n, False))]
    assert len(ops_with_form) >= EXPORTABLE


DTYPES = ["float32", "float32", "int64", "int32", "bool", "float64", "uint8", "float16"]
BY_ZERO = {"divide"}  # XLA's quotient of booleans is not a NaN for 0 / 0


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.filterwarnings("ignore")
def test_random_calls_have_the_same_results_or_are_reported(name: str) -> None:
    for seed in range(2):
        module = random_program(name, seed, DTYPES)
        if module is None or (name in BY_ZERO and module["main"].ret_struct_info.dtype == "bool"):
            continue
        try:
            check(module, *random_arguments(module["main"], seed, {"n": 3, "m": 2}))
            check_static(module, seed, {"n": 1, "m": 0})
        except StructIRError:
            continue


# ---- programs


@pytest.mark.parametrize("name", CASES)
def test_traced_functions_have_the_results_of_jax(name: str) -> None:
    function, arguments = CASES[name]
    module = structir.trace(function, *arguments)
    main = "main" if "main" in module.functions else next(iter(module.functions))
    try:
        text = to_stablehlo(module, main)
    except DiagnosticError as error:
        assert "linalg." in error.diagnostics[0].message  # LU factors have no form
        return
    expected = [EXPECTED[key] for key in EXPECTED.files if key.rpartition("/")[0] == name]
    fields = [each for p in module[main].params for each in infos(p.struct_info)]
    pairs = zip(flat(list(arguments)), fields, strict=True)
    inputs = [x.astype(info.dtype) for x, info in pairs]
    assert_same(expected, run(text, inputs, expected), 2e-4)


CONVOLUTION = """
@R.function
def main(x: R.Tensor(("n", 4, "h", "w"), "float32"), k: R.Tensor((6, 2, 3, 3), "float32")):
    y = R.nn.conv2d(x, k, strides=[2, 1], padding=[1, 1], groups=2)
    return R.nn.max_pool2d(R.nn.relu(y), pool_size=[2, 2], strides=[2, 2], padding=[1, 1])
"""


def numbers(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("sizes", [(2, 3, 5), (1, 4, 6)])
def test_programs_with_dynamic_sizes(sizes: tuple[int, ...]) -> None:
    n, h, w = sizes
    check(parsed(SHARED), numbers(n, 3))
    check(parsed(BRANCHES), numbers(n), np.array(n == 1))
    text = check(parsed(SCAN), numbers(h, n, 3), numbers(3, 3))
    assert "stablehlo.while" in text
    check(parsed(TUPLES), (numbers(n), (numbers(n),)))
    check(parsed(CONVOLUTION), numbers(n, 4, 2 * h, w), numbers(6, 2, 3, 3))


def test_sizes_make_a_static_module() -> None:
    module = parsed(CONVOLUTION)
    text = to_stablehlo(module, sizes={"n": 1, "h": 8, "w": 6})
    assert "?" not in text and "gather" not in text
    assert text.count("stablehlo.convolution") == text.count("stablehlo.reduce_window") == 1
    assert to_stablehlo(module, sizes="n=1 h=8 w=6") == text
    partly = to_stablehlo(module, sizes={"n": 1})
    assert "tensor<1x4x?x?xf32>" in partly


def test_constants_keep_their_elements() -> None:
    values: list[Any] = [
        np.array([np.inf, -np.inf, np.nan, -0.0, 1e-30, 3e38], "float32"),
        np.linspace(-1, 1, 40).reshape(4, 10),
        np.arange(40, dtype="uint8").reshape(8, 5) % 2 == 0,
        np.array([[2**63 - 1, -(2**63)]]),
        np.array([1e-5, 65504, np.inf], "float16"),
        np.zeros((0, 3), "int32"),
        np.array(7, "uint64"),
    ]
    builder = BlockBuilder()
    with builder.function("main", []):
        parts = [structir.ir.Constant(v) for v in values]
        builder.emit_func_output(structir.ir.Tuple(tuple(parts)))
    module = builder.get()
    for value, result in zip(values, run(to_stablehlo(module), [], values), strict=True):
        np.testing.assert_array_equal(result, value)
        assert result.dtype == value.dtype


def test_products_and_reductions_are_single_operations() -> None:
    source = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):
    y = R.matmul(x, w)
    return R.reshape(R.split(R.concat([y, y], axis=1), 2, axis=1)[0], (-1,))
"""
    module = parsed(source)
    check(module, numbers(2, 4), numbers(4, 3))
    text = to_stablehlo(module, sizes={"n": 2})
    names = [line.split("stablehlo.")[1].split()[0] for line in text.splitlines()[2:-3]]
    assert names == ["dot_general", "concatenate", "slice", "reshape"]


# ---- what has no form


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return R.linalg.svd(x)", "linalg.svd: no StableHLO form"),
        (
            'return R.call_pure_packed("my.norm", x, sinfo_args=R.Object)',
            "no StableHLO form of a call",
        ),
        ("return R.nonzero(x)", "nonzero: no StableHLO form"),
    ],
)
def test_what_has_no_form_is_one_error_with_its_line(body: str, message: str) -> None:
    module = parsed(f'@R.function\ndef main(x: R.Tensor((3, 3), "float32")):\n    {body}\n')
    with pytest.raises(DiagnosticError) as error:
        to_stablehlo(module)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.message.startswith(message) and diagnostic.code == "E0812"
    assert diagnostic.span is not None and diagnostic.span.line == 3


def test_missing_functions_unknown_sizes_and_ranks_are_reported() -> None:
    module = parsed(SHARED)
    with pytest.raises(DiagnosticError, match="no function other in the module"):
        to_stablehlo(module, "other")
    with pytest.raises(StructIRError, match="sizes: no dim q"):
        to_stablehlo(module, sizes={"q": 2})
    unknown = parsed("@R.function\ndef main(x: R.Tensor):\n    return x\n")
    with pytest.raises(DiagnosticError, match="parameter x: expected a tensor of known rank"):
        to_stablehlo(unknown)


# ---- the command


def test_the_command_writes_a_module(tmp_path: Path) -> None:
    source, target = tmp_path / "program.py", tmp_path / "program.mlir"
    source.write_text(BRANCHES)
    arguments = [
        "export",
        str(source),
        "--stablehlo",
        "--sizes",
        "n=3",
        "-o",
        str(target),
        "--json",
    ]
    result = CliRunner().invoke(cli.build(), arguments)
    assert result.exit_code == 0, result.output
    text = target.read_text()
    assert json.loads(result.output) == {"output": str(target), "lines": len(text.splitlines())}
    assert text == save_stablehlo(parsed(BRANCHES), target, sizes="n=3")
    by_name = CliRunner().invoke(cli.build(), [*arguments[:2], *arguments[3:]])
    assert by_name.exit_code == 0 and target.read_text() == text  # the format follows from the name
    for wrong in (["--onnx", "--stablehlo"], ["--onnx", "--sizes", "n=3"], ["-o", f"{target}.txt"]):
        failed = CliRunner().invoke(cli.build(), ["export", str(source), "-o", str(target), *wrong])
        assert failed.exit_code == 2
        assert target.read_text() == text and not Path(f"{target}.txt").exists()


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
def test_einsums_with_windows_parts_and_concatenations(case: tuple[Any, ...]) -> None:
    module = parsed(einsum_program(*case))
    check(module, *random_arguments(module["main"], 0, {}))
