"""Types written back into ONNX models: complete, right at every size, and nothing else changed."""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, TypeProto, helper, numpy_helper
from typer.testing import CliRunner

from structir.errors import DiagnosticError
from structir.frontend.onnx import annotate
from structir.tools import cli
from tests.frontend.models import BOOL, FLOAT, INT64, made, node, value
from tests.frontend.onnx_suite import building

with warnings.catch_warnings(), np.errstate(all="ignore"):
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

FUNCTIONS: dict[str, Any] = {"max": max, "min": min}
NAMES = re.compile(r"[A-Za-z_]\w*")
PARTS, SAMPLED = 4, 20


def types_of(graph: Any) -> dict[str, TypeProto]:
    return {v.name: v.type for v in (*graph.value_info, *graph.output, *graph.input)}


def sizes_of(onnx_type: TypeProto) -> list[Any] | None:
    """Returns the sizes of a tensor type: ints, texts, or None where one is unknown."""
    tensor = onnx_type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [getattr(d, d.WhichOneof("value") or "", None) for d in tensor.shape.dim]


def sizes(model: ModelProto) -> dict[str, list[Any] | None]:
    return {name: sizes_of(each) for name, each in types_of(annotate(model).proto().graph).items()}


# ---- against ONNX Runtime: every value is an output


def run_all(model: ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all values of the main graph by ONNX Runtime, without optimizations."""
    full = ModelProto()
    full.CopyFrom(model)
    full.ir_version = min(full.ir_version, 10)
    names = {o.name for o in full.graph.output}
    for each in model.graph.node:
        new = [o for o in each.output if o and o not in names]
        full.graph.output.extend([onnx.ValueInfoProto(name=o) for o in new])
        names.update(new)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        full.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs = [o.name for o in session.get_outputs()]
    return dict(zip(outputs, session.run(None, dict(inputs)), strict=True))


def violations(annotated: ModelProto, inputs: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """Yields the values whose annotated dtype, rank or size differs from the computed one."""
    bound: dict[str, int] = {}
    for each in annotated.graph.input:
        shape = getattr(inputs.get(each.name), "shape", ())
        for dim, size in zip(each.type.tensor_type.shape.dim, shape, strict=False):
            bound[dim.dim_param] = size
    types = types_of(annotated.graph)
    for name, array in values.items():
        tensor = types[name].tensor_type if name in types else None
        if tensor is None or not tensor.elem_type or not hasattr(array, "shape"):
            continue
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if tensor.elem_type != TensorProto.STRING and dtype != array.dtype:
            yield name, dtype, array.dtype
        if tensor.HasField("shape") and not fits(sizes_of(types[name]), array.shape, bound):
            yield name, sizes_of(types[name]), array.shape


def fits(inferred: Any, shape: tuple[int, ...], bound: dict[str, int]) -> bool:
    """Returns whether a shape is as inferred. A data-dependent size is bound at its first use."""
    if len(inferred) != len(shape):
        return False
    for text, size in zip(inferred, shape, strict=True):
        if isinstance(text, int):
            expected = text
        elif text is None or (text.isidentifier() and text not in bound):
            expected = bound.setdefault(text or "", size) if text else size
        elif all(name in bound or name in FUNCTIONS for name in NAMES.findall(text)):
            expected = eval(text, dict(FUNCTIONS), bound)
        else:
            expected = size  # of a data-dependent size that is an inner value's
        if expected != size:
            return False
    return True


def check_against_runtime(model: ModelProto, inputs: Mapping[str, Any]) -> None:
    annotated = annotate(model).proto()
    assert not list(violations(annotated, inputs, run_all(model, inputs)))


@cache
def suite() -> list[Any]:
    """Returns ONNX's own node tests."""
    with building():
        return list(collect_testcases(None))


@pytest.mark.parametrize("part", range(PARTS))
def test_no_type_of_the_backend_tests_is_wrong(part: int) -> None:
    """Declared outputs of a sample of all tests, and all values of those that are graphs."""
    sample = random.Random(part).sample(suite(), 3 * SAMPLED)
    for case in sample:
        annotated = annotate(case.model).proto()
        declared = {o.name: o.type for o in case.model.graph.output}
        for output in annotated.graph.output:
            kind = output.type.WhichOneof("value")
            assert kind == declared[output.name].WhichOneof("value"), case.name
            dtype = declared[output.name].tensor_type.elem_type
            assert output.type.tensor_type.elem_type == dtype, case.name
        names = [i.name for i in case.model.graph.input]
        for inputs, outputs in case.data_sets or []:
            values = dict(zip([o.name for o in case.model.graph.output], outputs, strict=False))
            bound = dict(zip(names, inputs, strict=False))
            assert not list(violations(annotated, bound, values)), case.name


@pytest.mark.parametrize("part", range(PARTS))
def test_no_inner_value_of_the_backend_tests_is_wrong(part: int) -> None:
    graphs = [c for c in suite() if len(c.model.graph.node) > 1]
    for case in random.Random(part).sample(graphs, SAMPLED):
        names = [i.name for i in case.model.graph.input]
        inputs = dict(zip(names, case.data_sets[0][0], strict=False))
        try:
            values = run_all(case.model, inputs)
        except Exception:  # ONNX Runtime lacks some ops and opsets
            continue
        assert not list(violations(annotate(case.model).proto(), inputs, values)), case.name


# ---- what is inferred


def test_computed_sizes_are_expressions_of_input_sizes() -> None:
    nodes = [
        node("Concat", "x x", "twice", axis=0),
        node("Concat", "twice one", "longer", axis=0),
        node("Transpose", "longer", "turned", perm=[1, 0]),
        node("Shape", "turned", "shape"),
        node("ConstantOfShape", "shape", "zeros"),
        node("NonZero", "turned", "where"),
        node("Transpose", "where", "pairs"),
    ]
    inputs = [value("x", ["n", 4]), value("one", [1, 4])]
    model = made(nodes, inputs, ["zeros", "pairs"])
    inferred = sizes(model)
    assert inferred["longer"] == ["2*n + 1", 4] and inferred["zeros"] == [4, "2*n + 1"]
    assert inferred["shape"] == [2] and inferred["where"] == [2, "where_1"]
    assert inferred["pairs"] == ["where_1", 2]
    for n in (3, 5):
        rng = np.random.default_rng(n)
        x, one = rng.random((n, 4), np.float32), np.ones((1, 4), np.float32)
        check_against_runtime(model, {"x": x, "one": one})


def test_input_sizes_without_a_usable_name_get_one() -> None:
    inputs = [value("x", ["?", None, "seq len"]), value("y", ["?"])]
    nodes = [
        node("Concat", "x x", "both", axis=2),
        node("Relu", "x", "same"),
        node("Neg", "y", "z"),
    ]
    inferred = sizes(made(nodes, inputs, ["both", "same", "z"]))
    first, second, third = inferred["x"] or []
    assert third == "seq len" and len({first, second, *(inferred["y"] or [])}) == 3
    assert inferred["same"] == [first, second, third] and inferred["z"] == inferred["y"]
    assert inferred["both"] == [first, second, "2*seq_len"]


def test_names_of_sizes_do_not_collide() -> None:
    inputs = [value("x", ["a.b"]), value("y", ["a b"]), value("z", ["a_b"])]
    nodes = [node("Concat", f"{k} {k}", f"{k}{k}", axis=0) for k in "xyz"]
    inferred = sizes(made(nodes, inputs, ["xx", "yy", "zz"]))
    texts = [inferred[k + k] for k in "xyz"]
    assert texts == [["2*a.b"], ["2*a_b_1"], ["2*a_b"]]


def test_declared_names_of_data_dependent_sizes_are_kept() -> None:
    model = made([node("NonZero", "x", "y"), node("Neg", "y", "z")], [value("x", ["n"])], ["z"])
    model.graph.output[0].CopyFrom(value("z", [1, "hits"], INT64))
    inferred = sizes(model)
    assert inferred["y"] == [1, "hits"] and inferred["z"] == [1, "hits"]


def test_wrong_declared_shapes_are_replaced() -> None:
    model = made([node("Transpose", "x", "y", perm=[1, 0])], [value("x", ["n", 4])], ["y"])
    model.graph.output[0].CopyFrom(value("y", ["n"]))
    model.graph.value_info.append(value("x", ["n", 4]))
    assert sizes(model)["y"] == [4, "n"]


def loop_body() -> Any:
    return helper.make_graph(
        [
            node("Identity", "go", "go_on"),
            node("Add", "state x", "sum"),
            node("Concat", "sum sum", "pair", axis=0),
        ],
        "body",
        [value("step", [], INT64), value("go", [], BOOL), value("state", None)],
        [value("go_on", None, BOOL), value("sum", None), value("pair", None)],
    )


def test_values_of_nested_graphs_are_annotated() -> None:
    def branch(op: str) -> Any:
        nodes = [node(op, "x", "inner"), node("Relu", "inner", "out")]
        return helper.make_graph(nodes, op, [], [value("out", None)])

    nodes = [
        node("If", "flag", "y", then_branch=branch("Neg"), else_branch=branch("Abs")),
        node("Loop", "trips _ y", "last stacked", body=loop_body()),
    ]
    inputs = [value("x", ["n", 2]), value("flag", [], BOOL), value("trips", [], INT64)]
    graph = annotate(made(nodes, inputs, ["last", "stacked"])).proto().graph
    for attribute in graph.node[0].attribute:
        inner = types_of(attribute.g)
        assert sizes_of(inner["inner"]) == ["n", 2] and sizes_of(inner["out"]) == ["n", 2]
    body = types_of(graph.node[1].attribute[0].g)
    assert sizes_of(body["state"]) == ["n", 2] and sizes_of(body["step"]) == []
    assert sizes_of(body["pair"]) == ["2*n", 2]
    outer = types_of(graph)
    assert sizes_of(outer["last"]) == ["n", 2] and (sizes_of(outer["stacked"]) or [])[1:] == [
        "2*n",
        2,
    ]


def test_values_of_functions_have_the_type_of_every_call() -> None:
    nodes = [node("Relu", "a", "b"), node("Concat", "b b", "c", axis=0)]
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("local", "Twice", ["a"], ["c"], nodes, opsets)
    calls = [
        helper.make_node("Twice", ["x"], ["u"], domain="local"),
        helper.make_node("Twice", ["z"], ["v"], domain="local"),
    ]
    inputs = [value("x", ["n", 3]), value("z", [5, 3])]
    model = made(calls, inputs, ["u", "v"], functions=[function])
    model.opset_import.append(helper.make_opsetid("local", 1))
    annotated = annotate(model).proto()
    assert sizes_of(types_of(annotated.graph)["u"]) == ["2*n", 3]
    assert sizes_of(types_of(annotated.graph)["v"]) == [10, 3]
    inner = {v.name: sizes_of(v.type) for v in annotated.functions[0].value_info}
    assert inner == {"b": [None, 3], "c": [None, 3]}
    del calls[1]
    single = made(calls, inputs, ["u"], functions=[function])
    single.opset_import.append(helper.make_opsetid("local", 1))
    inner = {v.name: sizes_of(v.type) for v in annotate(single).proto().functions[0].value_info}
    assert inner == {"b": ["n", 3], "c": ["2*n", 3]}


def test_strings_lists_and_optionals_have_their_types() -> None:
    nodes = [
        node("StringConcat", "s t", "st"),
        node("SequenceConstruct", "x x", "list"),
        node("SequenceAt", "list zero", "item"),
        node("Identity", "list", "copy"),
        node("Optional", "x", "maybe"),
        node("OptionalGetElement", "maybe", "surely"),
    ]
    inputs = [value("s", ["n"], TensorProto.STRING), value("x", ["n", 2])]
    constants = {"zero": np.array(0), "t": np.array(["a"], object)}
    model = made(nodes, inputs, ["st", "copy", "surely", "item"], constants)
    annotated = annotate(model)
    types = types_of(annotated.proto().graph)
    assert types["st"].tensor_type.elem_type == TensorProto.STRING
    assert types["copy"].sequence_type.elem_type.tensor_type.elem_type == FLOAT
    assert types["maybe"].optional_type.elem_type.tensor_type.elem_type == FLOAT
    assert sizes_of(types["surely"]) == ["n", 2]
    assert types["item"].tensor_type.elem_type == FLOAT


# ---- what cannot be inferred


def test_values_after_an_unsupported_op_stay_unknown_and_the_rest_is_annotated() -> None:
    nodes = [
        node("Relu", "x", "before"),
        helper.make_node("Mystery", ["before"], ["opaque"], domain="vendor"),
        node("Neg", "opaque", "after"),
        node("Concat", "before before", "beside", axis=0),
        helper.make_node("Mystery", ["beside"], ["again"], domain="vendor"),
    ]
    model = made(nodes, [value("x", ["n", 4])], ["after", "beside", "again"])
    model.opset_import.append(helper.make_opsetid("vendor", 1))
    annotated = annotate(model)
    assert annotated.unsupported == {"vendor::Mystery": 2}
    assert (annotated.total, annotated.annotated, annotated.unknown) == (5, 2, 3)
    types = types_of(annotated.proto().graph)
    assert sizes_of(types["beside"]) == ["2*n", 4] and "opaque" not in types


def test_declared_types_of_unsupported_results_are_used() -> None:
    nodes = [
        helper.make_node("Mystery", ["x"], ["opaque"], domain="vendor"),
        node("Concat", "opaque opaque", "after", axis=0),
    ]
    model = made(nodes, [value("x", ["n", 4])], ["after"])
    model.opset_import.append(helper.make_opsetid("vendor", 1))
    model.graph.value_info.append(value("opaque", ["n", "k"]))
    annotated = annotate(model)
    inferred = {k: sizes_of(v) for k, v in types_of(annotated.proto().graph).items()}
    assert inferred["opaque"] == ["n", "k"] and inferred["after"] == ["2*n", "k"]
    assert annotated.unknown == 0 and annotated.unsupported == {"vendor::Mystery": 1}


def test_shapes_that_run_time_values_fix_keep_their_rank() -> None:
    nodes = [node("Resize", "x _ scales", "y"), node("Relu", "y", "z"), node("Neg", "x", "w")]
    inputs = [value("x", ["n", 3, 8, 8]), value("scales", [4])]
    annotated = annotate(made(nodes, inputs, ["z", "w"]))
    inferred = {k: sizes_of(v) for k, v in types_of(annotated.proto().graph).items()}
    assert not annotated.unsupported and set(annotated.reasons) <= {"Resize"}
    assert len(inferred["z"] or []) == 4 and inferred["w"] == ["n", 3, 8, 8]


def test_an_invalid_model_is_one_error() -> None:
    with pytest.raises(DiagnosticError, match="before any node defines"):
        annotate(made([node("Relu", "missing", "y")], [value("x", ["n"])], ["y"]))


# ---- nothing else changes


def stripped(model: ModelProto) -> ModelProto:
    """Returns a model without the types of its values."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for graph in graphs_of(copy.graph):
        del graph.value_info[:]
        for each in (*graph.input, *graph.output):
            each.ClearField("type")
    for function in copy.functions:
        del function.value_info[:]
    return copy


def graphs_of(graph: Any) -> Iterator[Any]:
    yield graph
    for each in graph.node:
        for attribute in each.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)


@pytest.mark.parametrize("part", range(PARTS))
def test_only_types_change_and_a_second_time_nothing(part: int) -> None:
    for case in random.Random(part).sample(suite(), SAMPLED):
        annotated = annotate(case.model)
        assert stripped(annotated.proto()) == stripped(case.model), case.name
        assert annotate(annotated.proto()).data == annotated.data, case.name


def test_bytes_of_other_fields_are_copied(tmp_path: Path) -> None:
    """Unknown fields, metadata and references to external data survive byte for byte."""
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    model = made([node("MatMul", "x w", "y")], [value("x", ["n", 64])], ["y"])
    model.graph.initializer.append(weight)
    helper.set_model_props(model, {"author": "someone"})
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    data = (tmp_path / "m.onnx").read_bytes() + b"\xfa\x7d\x03abc"  # an unknown field
    (tmp_path / "m.onnx").write_bytes(data)
    annotated = annotate(tmp_path / "m.onnx")
    assert annotated.data.endswith(b"\xfa\x7d\x03abc")
    proto = annotated.proto()
    assert proto.graph.initializer[0].external_data[0].value == "w.bin"
    assert sizes_of(proto.graph.output[0].type) == ["n", 64]
    annotated.save(tmp_path / "out.onnx")
    onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)


# ---- the command


def test_the_command_reports_the_values_and_the_unsupported_ops(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "y"), helper.make_node("Mystery", ["y"], ["z"], domain="vendor")]
    model = made(nodes, [value("x", ["n"])], ["z"])
    model.opset_import.append(helper.make_opsetid("vendor", 1))
    onnx.save(model, tmp_path / "m.onnx")
    arguments = ["infer", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.onnx")]
    result = CliRunner().invoke(cli.build(), arguments)
    assert result.exit_code == 0 and "unsupported: 1 x vendor::Mystery" in result.stdout
    assert (tmp_path / "out.onnx").read_bytes() == annotate(model).data
    report = json.loads(CliRunner().invoke(cli.build(), [*arguments, "--json"]).stdout)
    assert report["values"] == {"total": 2, "annotated": 1, "unknown": 1}
    assert report["unsupported"] == {"vendor::Mystery": 1}


def test_the_command_needs_an_onnx_model(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("")
    arguments = ["infer", str(tmp_path / "m.py"), "-o", str(tmp_path / "out.onnx")]
    result = CliRunner().invoke(cli.build(), arguments)
    assert result.exit_code == 2 and "expected an existing .onnx file" in result.output
