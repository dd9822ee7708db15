"""Whole models: named sizes, shape computations, names, and run-time values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import structir
from structir.errors import DiagnosticWarning
from structir.frontend.onnx import from_onnx, shapes_of
from structir.frontend.onnx_backend import Backend
from structir.ir import dims
from structir.ir.struct_info import TensorStructInfo
from tests.frontend.models import BOOL, FLOAT, INT64, expected, made, node, value


def info_of(module: Any, name: str) -> TensorStructInfo:
    found = [b.var for b in module["main"].bindings() if b.var.name == name]
    return found[0].struct_info


def text(info: TensorStructInfo) -> list[str]:
    return [dims.text(d) for d in info.dims]


def agree(model: Any, inputs: dict[str, Any]) -> None:
    got = Backend.prepare(model).run(list(inputs.values()))
    for mine, theirs in zip(got, expected(model, inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
        assert mine.dtype == theirs.dtype


def test_sizes_have_the_names_of_the_model() -> None:
    nodes = [node("Concat", "x y", "z", axis=0), node("Relu", "z", "out")]
    model = made(nodes, [value("x", ["n", 3]), value("y", ["m", 3])], ["out"])
    module = from_onnx(model)
    assert text(info_of(module, "out")) == ["n + m", "3"]
    again = structir.parse(module.script())
    assert structir.structural_equal(again, module)


def test_unnamed_sizes_are_distinct() -> None:
    inputs = [value("x", ["?", ""]), value("y", ["?", None])]
    model = made([node("Concat", "x y", "z", axis=0)], inputs, ["z"])
    x, y = (p.struct_info for p in from_onnx(model)["main"].params)
    assert len({*x.dims, *y.dims}) == 4


def test_a_shape_computation_is_carried() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n", axis=0),
        node("Mul", "n two", "twice"),
        node("Unsqueeze", "twice zero1", "first"),
        node("Concat", "first minus", "wanted", axis=0),
        node("Reshape", "x wanted", "y"),
    ]
    constants = {
        "zero": np.int64(0),
        "two": np.int64(2),
        "zero1": np.array([0]),
        "minus": np.array([-1]),
    }
    model = made(nodes, [value("x", ["n", 6])], ["y"], constants)
    assert text(info_of(from_onnx(model), "y")) == ["2 * n", "3"]
    agree(model, {"x": np.random.default_rng(0).random((5, 6), "f4")})


@pytest.mark.parametrize("wanted", [[2, 6], [-1, 3], [0, -1], [12]])
def test_a_shape_that_arrives_at_run_time(wanted: list[int]) -> None:
    inputs = [value("x", [3, "n"]), value("wanted", [len(wanted)], INT64)]
    model = made([node("Reshape", "x wanted", "y")], inputs, ["y"])
    agree(model, {"x": np.arange(12, dtype="f4").reshape(3, 4), "wanted": np.array(wanted)})


@pytest.mark.parametrize(("start", "end", "step"), [(1, 4, 1), (-3, 99, 2), (4, -99, -1)])
def test_a_slice_that_arrives_at_run_time(start: int, end: int, step: int) -> None:
    vectors = [value(name, [1], INT64) for name in ("start", "end", "step")]
    nodes = [node("Slice", "x start end axis step", "y")]
    model = made(nodes, [value("x", [2, "n"]), *vectors], ["y"], {"axis": np.array([-1])})
    given = {n: np.array([v]) for n, v in (("start", start), ("end", end), ("step", step))}
    agree(model, {"x": np.arange(10, dtype="f4").reshape(2, 5), **given})


def test_the_first_elements_of_a_constant() -> None:
    nodes = [
        node("Shape", "x", "n", start=1, end=2),
        node("Slice", "known zero n one one", "cut"),
        node("Add", "x cut", "y"),
    ]
    known = np.arange(12.0, dtype="f4").reshape(1, 12)
    constants = {"known": known, "zero": np.array([0]), "one": np.array([1])}
    model = made(nodes, [value("x", ["b", "n"])], ["y"], constants)
    x = np.ones((2, 5), "f4")
    assert (structir.interpret(from_onnx(model), "main", x) == x + known[:, :5]).all()


def test_one_program_for_each_value_of_axes() -> None:
    inputs = [value("x", [2, "n"]), value("axes", [1], INT64)]
    model = made([node("ReduceSum", "x axes", "y", keepdims=0)], inputs, ["y"])
    prepared = Backend.prepare(model)
    x = np.arange(6, dtype="f4").reshape(2, 3)
    for axis in (0, 1, -1):
        (got,) = prepared.run([x, np.array([axis])])
        np.testing.assert_array_equal(got, x.sum(axis))


def test_warns_of_a_wrong_declared_output() -> None:
    model = made([node("Flatten", "x", "y")], [value("x", [2, 3, 4])], ["y"])
    model.graph.output[0].CopyFrom(value("y", [2, 3, 4]))
    with pytest.warns(DiagnosticWarning, match="'y': declared"):
        module = from_onnx(model)
    assert info_of(module, "y").ndim == 2


def test_a_function_of_the_model_is_laid_open() -> None:
    body = [
        node("Mul", "a b", "ab"),
        helper.make_node("LeakyRelu", ["ab"], ["c"], alpha=0.5),
    ]
    body[1].attribute[0].Clear()
    body[1].attribute[0].name, body[1].attribute[0].ref_attr_name = "alpha", "slope"
    body[1].attribute[0].type = 1
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("own", "f", ["a", "b"], ["c"], body, opsets, ["slope"])
    call = helper.make_node("f", ["x", "x"], ["y"], domain="own", slope=0.25)
    model = made([call, node("Neg", "y", "z")], [value("x", ["n"])], ["z"], functions=[function])
    model.opset_import.append(helper.make_opsetid("own", 1))
    (got,) = Backend.prepare(model).run([np.array([1.0, -2.0, 3.0], "f4")])
    np.testing.assert_array_equal(got, [-1, -4, -9])


def test_inputs_by_name_and_known_values() -> None:
    nodes = [node("Add", "x y", "z"), node("Not", "b", "c")]
    inputs = [value("x", ["n"], FLOAT), value("y", [1], FLOAT), value("b", [2], BOOL)]
    model = made(nodes, inputs, ["z", "c"])
    module = from_onnx(model, values={"y": np.array([2.0], "f4")})
    assert [p.name for p in module["main"].params] == ["x", "b"]
    given = {"b": np.array([True, False]), "x": np.ones(3, "f4"), "y": np.ones(1, "f4")}
    z, c = Backend.prepare(model).run(given)
    assert z.tolist() == [2, 2, 2]
    assert c.tolist() == [False, True]


def test_the_sizes_of_all_values_follow_from_the_inputs() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s one", "m"),
        node("Concat", "minus m", "target", axis=0),
        node("Reshape", "x target", "y"),
        node("MaxPool", "z", "p", kernel_shape=[2], strides=[2]),
        node("NonZero", "y", "found"),
    ]
    inputs = [value("x", ["n", "m"]), value("z", [1, 1, "w"])]
    constants = {"one": np.array([1]), "minus": np.array([-1])}
    sizes = shapes_of(made(nodes, inputs, ["y", "p", "found"], constants))
    assert sizes["s"] == [2] and sizes["m"] == [1]
    assert sizes["y"] == ["n", "m"]
    assert len(sizes["found"]) == 2 and sizes["found"][1] not in ("n", "m")
    for w in (2, 5, 8):
        assert eval(sizes["p"][2], {"w": w}) == (w - 2) // 2 + 1


def test_the_sizes_of_values_in_bodies() -> None:
    body = helper.make_graph(
        [node("Add", "h e", "t"), node("Tanh", "t", "after"), node("Identity", "after", "shown")],
        "body",
        [value("h", None), value("e", None)],
        [value("after", None), value("shown", None)],
    )
    one = helper.make_graph([node("Neg", "last", "a")], "one", [], [value("a", None)])
    other = helper.make_graph(
        [node("Concat", "last last", "b", axis=0)], "other", [], [value("b", None)]
    )
    nodes = [
        node("Scan", "start x", "last all", body=body, num_scan_inputs=1),
        node("If", "flag", "y", then_branch=one, else_branch=other),
    ]
    inputs = [value("start", ["n"]), value("x", ["t", "n"]), value("flag", [], BOOL)]
    sizes = shapes_of(made(nodes, inputs, ["y", "all"]))
    assert sizes["t"] == sizes["after"] == sizes["last"] == ["n"]
    assert sizes["all"] == ["t", "n"]
    assert (sizes["a"], sizes["b"]) == (["n"], ["2 * n"])
    assert sizes["y"] not in (["n"], ["2 * n"])


def test_the_sizes_of_values_after_choices_of_different_ranks() -> None:
    """Keeps the StructInfo common to both branches, with the rest of the graph in each."""

    def choice(data: str, result: str) -> Any:
        flat = helper.make_graph(
            [node("Squeeze", f"{data} first", f"{result}_flat")],
            "flat",
            [],
            [value(f"{result}_flat", None)],
        )
        same = helper.make_graph(
            [node("Identity", data, f"{result}_same")], "same", [], [value(f"{result}_same", None)]
        )
        return node("If", "flag", result, then_branch=flat, else_branch=same)

    nodes = [
        choice("x", "a"),
        node("Relu", "a", "b"),
        choice("x", "c"),
        node("Size", "c", "d"),
        node("ReduceSum", "c", "e", keepdims=0),
    ]
    inputs = [value("x", [1, "n", 4]), value("flag", [], BOOL)]
    model = made(nodes, inputs, ["b", "d", "e"], {"first": np.array([0])})
    sizes = shapes_of(model)
    assert sizes["a"] is None and sizes["b"] is None
    assert sizes["a_flat"] == ["n", 4] and sizes["a_same"] == [1, "n", 4]
    assert sizes["d"] == [] and sizes["e"] == []


def test_batch_normalization_by_constants_is_a_factor_and_a_summand() -> None:
    rng = np.random.default_rng(0)
    affine = {name: rng.uniform(0.5, 2, 3).astype("float32") for name in "sbmv"}
    nodes = [node("BatchNormalization", "x s b m v", "y", epsilon=1e-3)]
    model = made(nodes, [value("x", ["n", 3, 4])], ["y"], affine)
    ops = [binding.value.op.name for binding in from_onnx(model)["main"].bindings()]
    assert ops == ["multiply", "add"]
    agree(model, {"x": rng.standard_normal((2, 3, 4)).astype("float32")})
