"""Exported ONNX models: valid, run by ONNX Runtime with the results of the interpreter, and
imported again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto
from typer.testing import CliRunner

import structir
from structir.errors import DiagnosticError, StructIRError
from structir.export.onnx import ops as onnx_ops
from structir.export.onnx import save_onnx, to_onnx
from structir.export.onnx.registry import mappings
from structir.frontend.onnx import from_onnx
from structir.interpret.arguments import random_arguments
from structir.ir import BlockBuilder, IRModule
from structir.tools import cli
from tests.export.programs import BRANCHES, EINSUMS, SCAN, SHARED, einsum_program, random_program
from tests.frontend.models import BOOL, INT64, made, node, value
from tests.ops.built_in import BUILT_IN_OPS
from tests.ops.calls import symbolic_call

onnx_ops.load()
EXAMPLES: dict[str, Any] = {
    name: op.definition.examples for name, op in BUILT_IN_OPS.items() if op.definition.examples
}
EXPORTABLE = 160  # ops with all examples exported; a new mapping may raise it
UNDEFINED = {  # casts of floats out of range, and the maximum of RoiAlign, differ by runtime
    *(("astype", 1), ("astype", 2), ("vision.roi_align", 1)),
}
SHAPES = {"shape_of", "tensor_to_shape"}  # the result is a shape, an int64 vector in ONNX
RESAMPLED = 1e-4


def flat(values: Any) -> list[Any]:
    if isinstance(values, tuple | list):
        return [each for field in values for each in flat(field)]
    return [np.asarray(values)]


def run(model: ModelProto, *inputs: Any) -> list[Any]:
    """Returns the outputs by ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [i.name for i in model.graph.input]
    pairs = zip(names, flat(list(inputs)), strict=True)
    return list(session.run(None, {name: np.asarray(v) for name, v in pairs}))


def assert_same(expected: Any, results: list[Any]) -> None:
    expected = flat(expected)
    assert len(expected) == len(results)
    for wanted, result in zip(expected, results, strict=True):
        assert (wanted.dtype, wanted.shape) == (result.dtype, result.shape)
        np.testing.assert_allclose(wanted, result, rtol=RESAMPLED, atol=1e-5)


def check(module: IRModule, *inputs: Any) -> ModelProto:
    """Exports, validates, runs and imports a program; every result is the interpreter's."""
    model: ModelProto = to_onnx(module)
    onnx.checker.check_model(model, full_check=True)
    expected = structir.interpret(module, "main", *inputs)
    assert_same(expected, run(model, *inputs))
    again = structir.interpret(from_onnx(model), "main", *flat(list(inputs)))
    assert_same(expected, flat(again))
    return model


def parsed(source: str) -> IRModule:
    module: IRModule = structir.parse(source)
    return module


# ---- ops


def example(name: str, number: int, symbolic: bool) -> tuple[IRModule, tuple[Any, ...]]:
    """Returns a program that calls an op, with constant or symbolic sizes, and its arguments."""
    args, keywords = EXAMPLES[name][number]
    sizes: Any = {} if symbolic else None
    call, known = symbolic_call(name, args, keywords, sizes)  # type: ignore[no-untyped-call]
    builder = BlockBuilder()
    with builder.function("main", list(known)):
        builder.emit_func_output(builder.emit(call))
    return builder.get(), tuple(known.values())


def exported(name: str, symbolic: bool) -> bool:
    """Checks all examples of an op; returns False where one has no ONNX form."""
    for number in range(len(EXAMPLES[name])):
        if (name, number) in UNDEFINED:
            continue
        module, inputs = example(name, number, symbolic)
        try:
            model = to_onnx(module)
        except DiagnosticError as error:
            assert error.diagnostics[0].code == "E0811"
            return False
        result = structir.interpret(module, "main", *inputs)
        expected = [np.array(result, np.int64)] if name in SHAPES else result
        if all(o.type.tensor_type.HasField("shape") for o in model.graph.output):
            onnx.checker.check_model(model, full_check=True)
        assert_same(expected, run(model, *inputs))
    return True


@pytest.mark.parametrize("name", sorted(mappings))
def test_a_mapped_op_has_the_same_results(name: str) -> None:
    assert exported(name, symbolic=False)
    exported(name, symbolic=True)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - set(sorted(mappings))))
def test_an_op_without_a_mapping_is_decomposed_or_reported(name: str) -> None:
    exported(name, symbolic=False)


def test_most_ops_are_exported_and_imported_again() -> None:
    count = 0
    for name in EXAMPLES:
        module, inputs = example(name, 0, symbolic=False)
        try:
            model = to_onnx(module)
        except DiagnosticError:
            continue
        result = structir.interpret(module, "main", *inputs)
        expected = [np.array(result, np.int64)] if name in SHAPES else result
        assert_same(expected, flat(structir.interpret(from_onnx(model), "main", *inputs)))
        count += 1
    assert count >= EXPORTABLE


DTYPES = ["float32", "float64", "bfloat16", "bool", "int32", "int64"]
DTYPES += ["int8", "uint8", "int16", "uint16", "uint32", "uint64"]
LIMITS = re.compile(  # of ONNX Runtime: missing dtypes, checked indices, integers divided by zero
    "NOT_IMPLEMENTED|Could not find an implementation|Numpy_type|by zero|invalid index|out of data|"
    "Out of range"
)


@pytest.mark.parametrize("name", sorted(set(sorted(mappings)) - SHAPES))
@pytest.mark.filterwarnings("ignore")
def test_random_calls_have_the_same_results_or_are_reported(name: str) -> None:
    for seed in range(6):
        module = random_program(name, seed, DTYPES)
        if module is None:
            continue
        main: Any = module["main"]
        inputs = random_arguments(main, seed, {"n": 3, "m": 2})
        try:
            model, wanted = to_onnx(module), structir.interpret(module, "main", *inputs)
        except StructIRError:
            continue
        if all(o.type.tensor_type.HasField("shape") for o in model.graph.output):
            onnx.checker.check_model(model, full_check=True)
        try:
            results = run(model, *inputs)
        except Exception as error:
            assert LIMITS.search(str(error)), f"seed {seed}: {error}"
            continue
        assert_same(wanted, results)


@pytest.mark.parametrize("dtype", ("bool", "int8", "float8_e5m2"))
def test_dtypes_that_an_op_does_not_have_are_cast_to_wider_ones(dtype: str) -> None:
    module = parsed(
        f"""
@R.function
def main(a: R.Tensor((3, 3), "float32")):
    x = R.astype(R.astype(a, "float64"), "{dtype}")
    total, first = R.collapse_sum_to(x, (3,)), R.argmax(x, axis=1)
    rows, scan, product = R.sum(x, axis=0), R.cumprod(x, axis=1), R.matmul(x, x)
    return [R.astype(y, "float32") for y in (x, total, first, rows, scan, product,
            R.negative(x), R.nn.relu(x), R.less(x, R.permute_dims(x)), R.mean(x), R.add(x, x))]
"""
    )
    x = np.array([[100, 1, 90], [3, 11, 1], [2, 50, 127]], np.float32)
    model = to_onnx(module)
    onnx.checker.check_model(model, full_check=True)
    assert_same(structir.interpret(module, "main", x), run(model, x))


def test_a_dtype_without_a_wider_one_is_an_error_with_an_edit() -> None:
    source = """
@R.function
def main(x: R.Tensor((1, 2, 5), "int32"), w: R.Tensor((3, 2, 3), "int32")):
    return R.nn.conv1d(x, w)
"""
    with pytest.raises(DiagnosticError) as error:
        to_onnx(parsed(source))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.message == (
        "nn.conv1d: no ONNX form of this op: ONNX Conv does not accept int32"
    )
    assert diagnostic.span is not None and diagnostic.span.line == 4
    assert diagnostic.hint == 'cast the operands: `R.astype(x, "float32")`'


# ---- programs


def test_symbolic_dims_keep_their_names() -> None:
    module = parsed(
        """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32")):
    z = R.concat([x, y, x], axis=0)
    return R.reshape(z, (-1, 2))
"""
    )
    for n, m in ((2, 3), (5, 1)):
        model = check(module, np.ones((n, 4), np.float32), np.zeros((m, 4), np.float32))
    dims = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*model.graph.input, *model.graph.output)
    ]
    assert dims == [["n", 4], ["m", 4], ["4*n + 2*m", 2]]
    assert [v.name for v in model.graph.input] == ["x", "y"]


def test_tuples_are_flattened() -> None:
    module = parsed(
        """
@R.function
def main(p: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Tensor(("n",), "float32")))):
    a = p[0]
    b = p[1][0]
    return (a + b, (a, a + b), b)
"""
    )
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    model = to_onnx(module)
    onnx.checker.check_model(model, full_check=True)
    assert_same(structir.interpret(module, "main", (x, (y,))), run(model, x, y))
    assert len({o.name for o in model.graph.output}) == 4


def test_private_functions_are_inlined_with_their_own_sizes() -> None:
    module = parsed(SHARED)
    for n in (2, 5):
        check(module, np.random.default_rng(n).random((n, 3), np.float32))


def test_conditionals_are_nested_graphs() -> None:
    module = parsed(BRANCHES)
    x = np.arange(3, dtype=np.float32)
    for flag in (True, False):
        check(module, x, np.array(flag))


def test_results_that_are_inputs_constants_or_equal_are_copied() -> None:
    module = parsed(
        """
@R.function
def main(x: R.Tensor((2,), "float32")):
    y = x + x
    return (x, y, y, R.const([1.0, 2.0], "float32"))
"""
    )
    check(module, np.ones(2, np.float32))


def test_data_dependent_sizes_are_read_from_the_value() -> None:
    module = parsed(
        """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    k = T.int64()
    places = R.match_cast(R.nonzero(x), R.Tensor((1, k), "int64"))
    return R.zeros(R.shape([2 * k + 1]), "float32")
"""
    )
    check(module, np.array([0, 1, 2, 0, 3], np.float32))


def test_scans_are_exported() -> None:
    module = parsed(SCAN)
    for t, b in ((4, 2), (1, 5)):
        rng = np.random.default_rng(t)
        inputs = rng.random((t, b, 3), np.float32), rng.random((3, 3), np.float32)
        model = check(module, *inputs)
    assert "Scan" in {each.op_type for each in model.graph.node}


def loop_model() -> ModelProto:
    body = onnx.helper.make_graph(
        [
            node("Identity", "go", "go_on"),
            node("Add", "state x", "sum"),
            node("Mul", "sum sum", "squared"),
        ],
        "body",
        [value("step", [], INT64), value("go", [], BOOL), value("state", ["n"])],
        [value("go_on", [], BOOL), value("sum", ["n"]), value("squared", ["n"])],
    )
    nodes = [node("Loop", "trips _ x", "last all", body=body)]
    return made(nodes, [value("x", ["n"]), value("trips", [], INT64)], ["last", "all"])


def test_imported_loops_are_exported() -> None:
    model = loop_model()
    again = to_onnx(from_onnx(model))
    onnx.checker.check_model(again, full_check=True)
    x = np.arange(3, dtype=np.float32)
    assert_same(run(model, x, np.array(4)), run(again, x, np.array(4)))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("cell", ["LSTM", "GRU", "GRU linear", "RNN"])
def test_recurrent_layers_round_trip(cell: str, direction: str) -> None:
    kind, _, linear = cell.partition(" ")
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    count, hidden = 1 + (direction == "bidirectional"), 5
    rng = np.random.default_rng(gates)
    constants = {
        "w": rng.standard_normal((count, gates * hidden, 3)).astype(np.float32),
        "r": rng.standard_normal((count, gates * hidden, hidden)).astype(np.float32),
        "b": rng.standard_normal((count, 2 * gates * hidden)).astype(np.float32),
    }
    attributes = {"linear_before_reset": 1} if linear else {}
    layer = node(kind, "x w r b", "y h", hidden_size=hidden, direction=direction, **attributes)
    model = made([layer], [value("x", ["steps", "batch", 3])], ["y", "h"], constants)
    again = to_onnx(from_onnx(model))
    onnx.checker.check_model(again, full_check=True)
    for steps, batch in ((4, 2), (1, 3)):
        x = rng.standard_normal((steps, batch, 3)).astype(np.float32)
        assert_same(run(model, x), run(again, x))
    assert kind in {n.op_type for n in again.graph.node}


def test_names_of_inputs_and_outputs_survive_a_round_trip() -> None:
    nodes = [
        node("Relu", "a/b:0", "in.ner"),
        node("Neg", "in.ner", "out.put"),
        node("Abs", "out.put", "a-b"),
    ]
    model = made(nodes, [value("a/b:0", ["n"])], ["a-b", "out.put"])
    again = to_onnx(from_onnx(model))
    assert [v.name for v in again.graph.input] == ["a/b:0"]
    assert [v.name for v in again.graph.output] == ["a-b", "out.put"]


# ---- what has no ONNX form


def test_an_op_without_an_onnx_form_is_one_error_with_its_line() -> None:
    source = """
@R.function
def main(x: R.Tensor((3, 3), "float32")):
    y = x + x
    return R.linalg.cholesky(y)
"""
    with pytest.raises(DiagnosticError) as error:
        to_onnx(parsed(source))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.message.startswith("linalg.cholesky: no ONNX form")
    assert diagnostic.span is not None and diagnostic.span.line == 5
    assert diagnostic.hint is not None and '@exports("linalg.cholesky")' in diagnostic.hint


def test_recursion_is_an_error() -> None:
    source = """
@R.function
def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    cls = Module
    return main(x)
"""
    module = parsed(source.replace("    cls = Module\n", ""))
    with pytest.raises(DiagnosticError, match="recursion has no ONNX form"):
        to_onnx(module)


# ---- files and the command


def test_large_constants_are_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("structir.export.onnx.model.MAX_EMBEDDED_BYTES", (1 << 20) + 4096)
    builder = BlockBuilder()
    x = structir.ir.Var("x", structir.ir.TensorStructInfo((64, 64), "float32"))
    weight = structir.ir.Constant(np.ones((64, 64), np.float32))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(structir.script.R.matmul(x, weight)))
    module = builder.get()
    save_onnx(module, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").stat().st_size >= 64 * 64 * 4
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    x_array = np.ones((64, 64), np.float32)
    assert_same(structir.interpret(module, "main", x_array), session.run(None, {"x": x_array}))


def test_the_command_writes_the_model(tmp_path: Path) -> None:
    source = "@R.function\ndef main(x: R.Tensor(('n',), 'float32')):\n    return x + x\n"
    (tmp_path / "m.py").write_text(source)
    # the name or the option determines the format; with neither, nothing is written
    for target, options in (("m.onnx", []), ("m.model", ["--onnx"]), ("other.model", [])):
        output = tmp_path / target
        arguments = ["export", str(tmp_path / "m.py"), "-o", str(output), *options, "--json"]
        result = CliRunner().invoke(cli.build(), arguments)
        if target == "other.model":
            assert result.exit_code == 2 and "--onnx" in result.output
            assert ".onnx" in result.output and not output.exists()
            continue
        report = json.loads(result.stdout)
        assert report["inputs"] == ["x"] and len(report["outputs"]) == report["nodes"] == 1
        assert onnx.load(output).graph.input[0].name == "x"


@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
def test_einsums_with_windows_parts_and_concatenations(case: tuple[Any, ...]) -> None:
    module = parsed(einsum_program(*case))
    check(module, *random_arguments(module["main"], 0, {}))
