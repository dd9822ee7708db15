"""Whole handwritten programs: sizes and their ranges, weights, names, messages."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import structir
from structir import passes
from structir.errors import DiagnosticError, StructIRError
from structir.frontend.torch import from_exported_program, from_pt2
from structir.frontend.torch.unsupported import UnmappedOpsError, with_hint
from structir.ir import dims
from structir.ir.struct_info import TensorStructInfo
from tests.frontend.torch.written import archive, given, meta, node, program, symbol

N, M = symbol("s0"), symbol("s1")


def doubled(rows, **ranges):
    """Returns a program of x + x for an x with these rows."""
    nodes = [node("aten.add.Tensor", "y", self="x", other="x")]
    return program(nodes, {"x": meta(rows, 3), "y": meta(rows, 3)}, ["x"], ["y"], **ranges)


def info_of(var) -> TensorStructInfo:
    assert isinstance(var.struct_info, TensorStructInfo)
    return var.struct_info


def test_sizes_keep_torchs_names_or_get_others():
    module = from_pt2(archive(doubled(N)))
    assert str(module["main"].params[0].struct_info) == 'R.Tensor((s0, 3), dtype="float32")'
    module = from_pt2(archive(doubled(N)), names={"s0": "batch"})
    assert str(module["main"].ret_struct_info) == 'R.Tensor((batch, 3), dtype="float32")'


def test_ranges_are_checked_when_the_program_runs():
    run = structir.compile(from_pt2(archive(doubled(N, s0=(3, 8)))))["main"]
    assert run(np.ones((3, 3), "float32")).shape == (3, 3)
    assert run(np.ones((8, 3), "float32")).shape == (8, 3)
    for rows in (1, 2, 9):
        with pytest.raises(StructIRError, match="s0"):
            run(np.ones((rows, 3), "float32"))


def test_a_size_that_is_a_multiple_is_checked_too():
    """Solves for s0, which is not the size of any axis."""
    stated = doubled(f"Add(Mul(Integer(2), {N}), Integer(1))")
    module = from_pt2(archive(stated))
    (rows, _) = info_of(module["main"].params[0]).dims
    assert dims.as_sym(rows).name == "x_0"
    run = structir.compile(module)["main"]
    assert run(np.ones((7, 3), "float32")).shape == (7, 3)
    with pytest.raises(StructIRError):
        run(np.ones((6, 3), "float32"))


def test_weights_are_constants_or_the_last_parameters():
    nodes = [node("aten.mm.default", "y", self="x", mat2="w")]
    values = {"x": meta(N, 2), "w": meta(2, 3), "y": meta(N, 3)}
    stated = program(nodes, values, ["x"], ["y"], ("w",))
    weight = np.arange(6, dtype="float32").reshape(3, 2).T  # its strides are told
    x = np.ones((4, 2), "float32")
    held = from_pt2(archive(stated, {"w": weight}))
    bare = from_pt2(archive(stated), weights_as_inputs=True)
    assert [p.name for p in held["main"].params] == ["x"]
    assert [p.name for p in bare["main"].params] == ["x", "w"]
    assert bare["main"].attrs["num_input"] == 1
    wanted = np.full((4, 3), [1, 5, 9], "float32")
    np.testing.assert_array_equal(structir.interpret(held, "main", x), wanted)
    np.testing.assert_array_equal(structir.interpret(bare, "main", x, weight), wanted)


def test_one_error_lists_all_unsupported_ops():
    nodes = [
        node("aten.fft_fft.default", "a", self="x"),
        node("aten.fft_fft.default", "b", self="a"),
        node("mine.op.default", "y", self="b"),
    ]
    values = {name: meta(2) for name in "xaby"}
    with pytest.raises(DiagnosticError) as error:
        from_pt2(archive(program(nodes, values, ["x"], ["y"])))
    text = str(error.value)
    assert "3 nodes of 2 ops cannot be imported" in text
    assert "2 x aten.fft_fft.default, first in `a = aten.fft_fft.default(x)`" in text
    assert "1 x mine.op.default, first in `y = mine.op.default(b)`" in text
    assert "`ep = ep.run_decompositions()`" in text


def test_unsupported_dtypes_are_counted_beside_the_ops():
    nodes = [node("mine.op.default", "y", self="x")]
    values = {"x": meta(2, dtype="float32"), "y": meta(2)}
    stated = program(nodes, values, ["x"], ["y"])
    stated["graph_module"]["graph"]["tensor_values"]["x"]["dtype"] = 9  # complex32
    with pytest.raises(DiagnosticError) as error:
        from_pt2(archive(stated))
    assert "1 node of 1 op cannot be imported" in str(error.value)
    assert "1 x tensor of a quantized or other unsupported dtype, first 'x'" in str(error.value)
    nodes[0]["target"] = "torch.ops.aten.relu.default"
    with pytest.raises(DiagnosticError, match="cannot import 1 x tensor of a quantized"):
        from_pt2(archive(stated))


def test_dtype_conversions_of_prims_are_casts():
    convert = node("prims.convert_element_type.default", "y", a="x", dtype={"as_scalar_type": 8})
    values = {"x": meta(2), "y": meta(2, dtype="float64")}
    module = from_pt2(archive(program([convert], values, ["x"], ["y"])))
    result = structir.interpret(module, "main", np.ones(2, "float32"))
    assert result.dtype == np.float64


def test_the_hint_after_decomposition_registers_a_mapping():
    nodes = [node("mine.op.default", "y", self="x")]
    with pytest.raises(UnmappedOpsError) as error:
        from_pt2(archive(program(nodes, {"x": meta(2), "y": meta(2)}, ["x"], ["y"])))
    (diagnostic,) = with_hint(error.value, is_decomposed=True).diagnostics
    assert diagnostic.hint == 'register a mapping: `@torch_op(":mine.op.default")`'


def test_a_wrong_node_is_shown_with_the_line_of_python_it_comes_from():
    trace = 'File "/home/me/model.py", line 12, in forward\n    y = x @ w\n'
    trace += '  File "/lib/torch/nn/functional.py", line 9, in linear\n    return mm(x, w)'
    nodes = [node("aten.mm.default", "y", trace, self="x", mat2="w")]
    values = {"x": meta(N, 2), "w": meta(5, 3), "y": meta(N, 3)}
    with pytest.raises(DiagnosticError) as error:
        from_pt2(archive(program(nodes, values, ["x", "w"], ["y"])))
    text = str(error.value)
    assert "y = aten.mm.default(x, w)  # model.py:12: y = x @ w" in text
    assert "matmul" in text


def test_rejects_a_contradicting_declared_result():
    nodes = [node("aten.mm.default", "y", self="x", mat2="w")]
    for wrong in (meta(N, 4), meta(N, 3, dtype="float64"), meta(N)):
        values = {"x": meta(N, 2), "w": meta(2, 3), "y": wrong}
        with pytest.raises(DiagnosticError, match="but the exported program declares"):
            from_pt2(archive(program(nodes, values, ["x", "w"], ["y"])))


def test_rejects_enabled_autocast():
    inner = {"inputs": [given("x")], "outputs": [given("z")], "tensor_values": {}}
    inner["nodes"] = [node("aten.relu.default", "z", self="x")]
    block = node("higher_order.wrap_with_autocast", "y")
    values = [{"as_string": "cpu"}, {"as_scalar_type": 13}, True, False]
    graph = {"as_graph": {"name": "g", "graph": inner}}
    args = [*map(given, values), graph, given("x")]
    block["inputs"] = [{"name": "", "arg": arg, "kind": 1} for arg in args]
    stated = program([block], {"x": meta(2), "y": meta(2)}, ["x"], ["y"])
    with pytest.raises(DiagnosticError, match=r"1 x higher_order\.wrap_with_autocast"):
        from_pt2(archive(stated))
    block["inputs"][2]["arg"] = given(False)
    inner["tensor_values"] = {"x": meta(2), "z": meta(2)}
    module = from_pt2(archive(stated))
    x = np.array([-1, 1], "float32")
    np.testing.assert_array_equal(structir.interpret(module, "main", x), [0, 1])


def test_rejects_writes_with_unknown_aliasing():
    nodes = [
        node("aten.transpose.int", "t", self="x", dim0=0, dim1=1),
        node("aten.reshape.default", "r", self="t", shape=[6]),
        node("aten.add_.Scalar", "a", self="r", other=1),
    ]
    values = {"x": meta(2, 3), "t": meta(3, 2), "r": meta(6), "a": meta(6)}
    values["t"]["strides"] = [{"as_int": 1}, {"as_int": 3}]
    with pytest.raises(DiagnosticError, match="run_decompositions"):
        from_pt2(archive(program(nodes, values, ["x"], ["a"])))


@pytest.mark.parametrize("later", ["r", "row", "t", "base"])
def test_a_written_view_that_may_be_a_copy_is_valid_but_its_base_is_unknown(later: str) -> None:
    nodes = [
        node("aten.mul.Scalar", "base", self="x", other=1.0),
        node("aten.transpose.int", "t", self="base", dim0=0, dim1=1),
        node("aten.reshape.default", "r", self="t", shape=[6]),
        node("aten.slice.Tensor", "row", self="r", dim=0, start=4, end=6),
        node("aten.mul_.Scalar", "a", self="row", other=3.0),
        node("aten.add.Scalar", "y", self=later, other=1),
    ]
    sizes = {"x": (2, 3), "base": (2, 3), "t": (3, 2), "r": (6,), "row": (2,), "a": (2,)}
    values = {name: meta(*size) for name, size in sizes.items()} | {"y": meta(*sizes[later])}
    values["t"]["strides"] = [{"as_int": 1}, {"as_int": 3}]
    file = archive(program(nodes, values, ["x"], ["y"]))
    if later in ("t", "base"):
        with pytest.raises(DiagnosticError, match="run_decompositions"):
            from_pt2(file)
        return
    x = np.arange(6, dtype="float32").reshape(2, 3)
    r = np.array([0, 3, 1, 4, 6, 15], "float32")
    expected = (r if later == "r" else r[4:]) + 1
    np.testing.assert_array_equal(structir.interpret(from_pt2(file), "main", x), expected)


ALIASES = {
    "to.dtype": ({"dtype": 7}, (2, 3)),
    "type_as.default": ({"other": "x"}, (2, 3)),
    "atleast_3d.default": ({}, (2, 3, 1)),
    "feature_dropout.default": ({"p": 0.5, "train": False}, (2, 3)),
    "alpha_dropout.default": ({"p": 0.5, "train": False}, (2, 3)),
    "adjoint.default": ({}, (3, 2)),
    "broadcast_to.default": ({"size": [2, 3]}, (2, 3)),
    "clone.default": ({}, (2, 3)),  # a copy
}


@pytest.mark.parametrize("name", ALIASES)
def test_a_write_to_an_alias_is_visible_in_its_base(name: str) -> None:
    arguments, sizes = ALIASES[name]
    first = "input" if "dropout" in name else "self"
    nodes = [
        node("aten.mul.Scalar", "base", self="x", other=1.0),
        node(f"aten.{name}", "y", **{first: "base"}, **arguments),
        node("aten.add_.Scalar", "written", self="y", other=3.0),
        node("aten.mul.Scalar", "z", self="base", other=2.0),
    ]
    values = {"x": meta(2, 3), "base": meta(2, 3), "z": meta(2, 3)}
    values |= {"y": meta(*sizes), "written": meta(*sizes)}
    module = from_pt2(archive(program(nodes, values, ["x"], ["z"])))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    expected = 2 * (x if name == "clone.default" else x + 3)
    np.testing.assert_array_equal(structir.interpret(module, "main", x), expected)


INACTIVE_DROPOUTS = {
    "dropout_": {"p": 0.5, "train": False},
    "feature_dropout_": {"p": 0.5, "train": False},
    "alpha_dropout_": {"p": 0.5, "train": False},
    "feature_alpha_dropout_": {"p": 0.0, "train": True},
}


@pytest.mark.parametrize("name", INACTIVE_DROPOUTS)
def test_inactive_dropout_in_place_keeps_its_operand(name: str) -> None:
    nodes = [
        node("aten.mul.Scalar", "base", self="x", other=2.0),
        node(f"aten.{name}.default", "same", input="base", **INACTIVE_DROPOUTS[name]),
        node("aten.add_.Scalar", "written", self="same", other=3.0),
        node("aten.mul.Scalar", "y", self="base", other=2.0),
    ]
    values = {key: meta(2, 3) for key in ("x", "base", "same", "written", "y")}
    module = from_pt2(archive(program(nodes, values, ["x"], ["y"])))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(structir.interpret(module, "main", x), 2 * (2 * x + 3))


def test_rejects_the_former_name_of_a_tensor_whose_shape_changes_in_place():
    nodes = [
        node("aten.t_.default", "z", self="x"),
        node("aten.add.Tensor", "y", self="x", other="z"),
    ]
    values = {name: meta(2, 2) for name in "xyz"}
    with pytest.raises(DiagnosticError, match="'x' is used after its shape has changed"):
        from_pt2(archive(program(nodes, values, ["x"], ["y"])))


def test_mutated_inputs_are_results():
    nodes = [
        node("aten.select.int", "row", self="x", dim=0, index=1),
        node("aten.mul_.Scalar", "more", self="row", other=3.0),
        node("aten.sum.default", "y", self="x"),
    ]
    values = {"x": meta(2, 3), "row": meta(3), "more": meta(3), "y": meta()}
    module = from_pt2(archive(program(nodes, values, ["x"], ["y"])))
    assert module["main"].attrs["output_names"] == ("y", "x")
    total, after = structir.interpret(module, "main", np.ones((2, 3), "float32"))
    assert total == 12
    np.testing.assert_array_equal(after, [[1, 1, 1], [3, 3, 3]])


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_torch_is_asked_for_where_it_is_needed():
    with pytest.raises(StructIRError, match=r"pip install structir\[torch\]"):
        from_exported_program(object())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"FloorDiv({N}, Integer(2))", "s0 // 2"),
        (f"Add(Mul(Integer(-1), {N}), Integer(5))", "-s0 + 5"),
        (f"Mul(Rational(1, 2), Mul(Integer(4), {N}))", "2 * s0"),
        (f"CeilToInt(IntTrueDiv({N}, Integer(3)))", "(s0 + 2) // 3"),
        (f"Max(Integer(4), {N})", "max(s0, 4)"),
        (f"Mod({N}, Integer(4))", "s0 % 4"),
        (f"Pow({N}, Integer(2))", "s0 * s0"),
        (f"Min({N}, {M}, Integer(9))", "min(s0, s1, 9)"),
        (f"FloorToInt(Mul(Float('0.5', precision=53), {N}))", "s0 // 2"),
    ],
)
def test_expressions(text, wanted):
    from structir.frontend.torch.sizes import TorchSymbols

    symbols = TorchSymbols({})
    found = symbols.dim(text)
    names = {n: dims.as_sym(d) for n, d in symbols.by_name.items()}
    for n, m in ((3, 4), (10, 2), (17, 33)):
        values = {names[k]: v for k, v in (("s0", n), ("s1", m)) if k in names}
        assert dims.evaluate(found, values) == eval(wanted, {"s0": n, "s1": m})


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "x.y", "Symbol", "Pow(Symbol('s'), Integer(10000000))", "(" * 5000, "1 +",
     "Mul(Rational(1, 2), Symbol('s'))", "sqrt(Symbol('s'))", "Rational(1, 0)"],
)  # fmt: skip
def test_expressions_that_are_no_sizes(text):
    with pytest.raises(DiagnosticError):
        from_pt2(archive(doubled(text)))


def test_detached_values_and_padding_rows_have_no_gradient():
    nodes = [
        node("aten.embedding.default", "rows", weight="w", indices="i", padding_idx=1),
        node("aten.detach.default", "d", self="rows"),
        node("aten.mul.Tensor", "product", self="rows", other="d"),
        node("aten.sum.default", "y", self="product"),
    ]
    floats = {"w": meta(3, 2), "y": meta()} | {n: meta(N, 2) for n in ("rows", "d", "product")}
    stated = program(nodes, floats | {"i": meta(N, dtype="int64")}, ["i"], ["y"], ("w",))
    weight = np.arange(1, 7, dtype="float32").reshape(3, 2)
    module = from_pt2(archive(stated, {"w": weight}), weights_as_inputs=True)
    differentiated = passes.Gradient(parameters="w")(module)
    _, (gradient,) = structir.interpret(
        differentiated, "main_adjoint", np.array([0, 1, 2, 2]), weight
    )
    np.testing.assert_array_equal(gradient, weight * [[1], [0], [2]])
