"""Inputs of unknown rank get the shapes that ONNX's ops, attributes and other operands fix."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import structir
from structir.errors import DiagnosticError, StructIRError
from structir.frontend.onnx import from_onnx, shapes_of
from structir.frontend.onnx.shape_checks import dims_text
from structir.ir.struct_info import TensorStructInfo
from tests.frontend.models import expected, made, node, value


def inferred(model: Any) -> Any:
    """Returns the function `main` of a model after shape inference."""
    return structir.infer(from_onnx(model))["main"]


def shape_of(model: Any, name: str) -> str | None:
    """Returns the inferred shape of an input."""
    (info,) = [p.struct_info for p in inferred(model).params if p.name == name]
    assert isinstance(info, TensorStructInfo)
    return None if info.ndim is None else dims_text(info.dims)


X, W = value("X", None), value("W", None)


def one(op: str, operands: str, *declared: Any, **options: Any) -> Any:
    """Returns a model of one node."""
    constants = options.pop("constants", {})
    opset = options.pop("opset", 21)
    results = options.pop("results", "Y")
    one_node = node(op, operands, results, **options)
    return made([one_node], declared, results.split(), constants, opset)


def rank_case(rank: int, model: Any) -> Any:
    return pytest.param(model, rank, id=f"{model.graph.node[0].op_type}-{rank}")


RANKS = [
    rank_case(2, one("Gemm", "X W", X, W)),
    rank_case(3, one("Transpose", "X", X, perm=[0, 2, 1])),
    rank_case(4, one("Conv", "X W", X, value("W", [8, 3, 3, 3]))),
    rank_case(5, one("Conv", "X W", X, W, kernel_shape=[2, 2, 2])),
    rank_case(3, one("Conv", "X W", X, W, strides=[2], kernel_shape=[3])),
    rank_case(4, one("Conv", "X W", X, W, pads=[1] * 4, kernel_shape=[3, 3])),
    rank_case(4, one("ConvTranspose", "X W", X, value("W", [3, 8, 2, 2]))),
    rank_case(4, one("MaxPool", "X", X, kernel_shape=[2, 2])),
    rank_case(3, one("AveragePool", "X", X, kernel_shape=[2])),
    rank_case(4, one("SpaceToDepth", "X", X, blocksize=2)),
    rank_case(2, one("Pad", "X p", X, constants={"p": [0, 1, 0, 1]})),
    rank_case(3, one("Tile", "X r", X, constants={"r": [1, 2, 3]})),
    rank_case(4, one("Resize", "X _ s", X, constants={"s": np.float32([1, 1, 2, 2])})),
    rank_case(3, one("LSTM", "X W R", X, value("W", [1, 12, 4]), value("R", [1, 12, 3]))),
    rank_case(3, one("NegativeLogLikelihoodLoss", "X t", X, value("t", [2, 4], 7))),
    rank_case(4, one("RoiAlign", "X r b", X, value("r", None), value("b", None, 7))),
    rank_case(2, one("EyeLike", "X", X)),
]


@pytest.mark.parametrize(("model", "rank"), RANKS)
def test_ops_and_attributes_fix_the_rank_of_an_input(model: Any, rank: int) -> None:
    if model.graph.node[0].op_type == "LSTM":
        model.graph.node[0].attribute.append(onnx.helper.make_attribute("hidden_size", 3))
    (info,) = [p.struct_info for p in inferred(model).params if p.name == "X"]
    assert info.ndim == rank


@pytest.mark.parametrize(
    ("flags", "a", "b", "name", "shape"),
    [
        ((0, 0), [3, 4], None, "B", "(4, 5)"),
        ((0, 1), [3, 4], None, "B", "(5, 4)"),
        ((1, 0), [4, 3], None, "B", "(4, 5)"),
        ((1, 1), [4, 3], None, "B", "(5, 4)"),
        ((0, 0), None, [4, 5], "A", "(3, 4)"),
        ((1, 1), None, [5, 4], "A", "(4, 3)"),
    ],
)
def test_gemm_infers_its_factors_for_all_flags(
    flags: Any, a: Any, b: Any, name: str, shape: str
) -> None:
    declared = value("A", a), value("B", b), value("C", [3, 5])
    model = one("Gemm", "A B C", *declared, transA=flags[0], transB=flags[1])
    assert shape_of(model, name) == shape


def test_the_bias_of_gemm_broadcasts_one_way() -> None:
    unknown = one("Gemm", "A B C", value("A", [3, 4]), value("B", [4, 5]), value("C", None))
    assert str(inferred(unknown).ret_struct_info) == 'R.Tensor((3, 5), dtype="float32")'
    with pytest.raises(DiagnosticError, match=r"broadcasts to \(1, 5\), found \(3, 5\)"):
        from_onnx(one("Gemm", "A B C", value("A", [1, 4]), value("B", [4, 5]), value("C", [3, 5])))
    symbolic = one("Gemm", "A B C", value("A", ["m", 4]), value("B", [4, 5]), value("C", [3, 5]))
    module = from_onnx(symbolic)
    arguments = [np.ones(s, "float32") for s in ((3, 4), (4, 5), (3, 5))]
    assert structir.interpret(module, "main", *arguments).shape == (3, 5)
    with pytest.raises(StructIRError):
        structir.interpret(module, "main", arguments[0][:1], *arguments[1:])


def test_the_slope_of_prelu_broadcasts_one_way() -> None:
    unknown = one("PRelu", "X S", value("X", [2, 3, 4]), value("S", None))
    assert str(inferred(unknown).ret_struct_info) == 'R.Tensor((2, 3, 4), dtype="float32")'
    with pytest.raises(DiagnosticError, match=r"broadcasts to \(1, 4\), found \(3, 4\)"):
        from_onnx(one("PRelu", "X S", value("X", [1, 4]), value("S", [3, 4])))


def test_transpose_of_unknown_rank() -> None:
    module = from_onnx(one("Transpose", "X", X))
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    assert np.array_equal(structir.interpret(module, "main", x), x.T)


def test_convolution_of_unknown_rank_runs() -> None:
    model = one("Conv", "X W", X, value("W", [8, 3, 3, 3]))
    x, w = np.ones((1, 3, 5, 5), "float32"), np.ones((8, 3, 3, 3), "float32")
    result = structir.interpret(structir.infer(from_onnx(model)), "main", x, w)
    assert np.allclose(result, expected(model, {"X": x, "W": w})[0])


def test_a_use_fixes_the_rank_for_later_uses() -> None:
    nodes = [node("MaxPool", "X", "P", kernel_shape=[2, 2]), node("Softmax", "X", "Y", axis=3)]
    assert shapes_of(made(nodes, [X], ["P", "Y"]))["Y"] == ["X_0", "X_1", "X_2", "X_3"]
    with pytest.raises(DiagnosticError, match="expected 2 axes"):
        gemm = node("Gemm", "X X", "Z")
        from_onnx(made([nodes[0], gemm], [X], ["P", "Z"]))


def demo() -> Any:
    """Returns the example of three unknown inputs of the Rosette solver for ONNX."""
    nodes = [
        node("Gemm", "A I1 C1", "T1"),
        node("Add", "T1 I2", "T2"),
        node("Gemm", "T2 I3 C2", "T3"),
    ]
    sizes = {"A": [3, 4], "I1": None, "C1": [3, 5], "I2": None, "I3": None, "C2": [3, 7]}
    return made(nodes, [value(name, shape) for name, shape in sizes.items()], ["T3"])


def test_the_rosette_example_as_a_file_infers_the_same_as_its_text(tmp_path: Path) -> None:
    onnx.save(demo(), tmp_path / "demo.onnx")
    text = structir.parse(
        """
        @I.ir_module
        class Module:
            @R.function
            def main(A: R.Tensor((3, 4), "float32"), I1: R.Tensor(ndim=2, dtype="float32"),
                     C1: R.Tensor((3, 5), "float32"), I2: R.Tensor(dtype="float32"),
                     I3: R.Tensor(ndim=2, dtype="float32"), C2: R.Tensor((3, 7), "float32")):
                k = T.int64()
                T1 = R.add(R.match_cast(R.matmul(A, I1), R.Tensor((3, 5), "float32")), C1)
                T2 = R.match_cast(R.add(T1, I2), R.Tensor((3, k), "float32"))
                return R.add(R.match_cast(R.matmul(T2, I3), R.Tensor((3, 7), "float32")), C2)
        """
    )
    functions = [inferred(tmp_path / "demo.onnx"), structir.infer(text)["main"]]
    shapes = [[str(p.struct_info) for p in function.params] for function in functions]
    assert shapes[0] == shapes[1]
    assert shapes[0][1] == 'R.Tensor((4, 5), dtype="float32")'
    assert shapes[0][4] == 'R.Tensor((5, 7), dtype="float32")'
    assert str(functions[0].ret_struct_info) == 'R.Tensor((3, 7), dtype="float32")'


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("k+1", "k + 1"),
        ("k + 1", "k + 1"),
        ("2*k", "2 * k"),
        ("k*2 - 1", "2 * k - 1"),
        ("k//2", "k // 2"),
        ("k + m", "k + m"),
        ("max(k, 4)", "T.max(k, 4)"),
    ],
)
def test_dim_params_are_expressions_of_declared_sizes(text: str, size: str) -> None:
    model = one("Identity", "X", value("X", [text, 4]), value("Z", ["k", "m"]))
    (info,) = [p.struct_info for p in from_onnx(model)["main"].params if p.name == "X"]
    assert str(info) == f'R.Tensor(({size}, 4), dtype="float32")'


def test_a_size_is_inferred_through_an_expression() -> None:
    nodes = [node("Slice", "X s e", "Y"), node("Gemm", "Y Z", "P")]
    constants = {"s": [0], "e": [3]}
    declared = [value("X", ["k+1", "k"]), value("Z", [4, 5])]
    (x, _) = inferred(made(nodes, declared, ["P"], constants)).params
    assert str(structir.infer(from_onnx(made(nodes, declared, ["P"], constants)))).count("(5, 4)")
    assert x.name == "X"


@pytest.mark.parametrize("text", ["seq-len", "k+1", "batch size", "m(k)", "k+1.5", "k.x + 1"])
def test_other_dim_params_are_names(text: str) -> None:
    declared = [value("X", [text, 4]), value("Z", ["seq", "len"])]
    (info,) = [
        p.struct_info
        for p in from_onnx(one("Identity", "X", *declared))["main"].params
        if p.name == "X"
    ]
    assert all(variable.isidentifier() for variable in [str(info.dims[0])])


def test_declared_shapes_of_results_fix_unknown_ranks() -> None:
    model = made([node("Relu", "X", "T"), node("Exp", "T", "Y")], [X, value("Z", ["n", 1])], [])
    model.graph.output.append(value("Y", ["n", 4]))
    assert shape_of(model, "X") == "(n, 4)"
    model.graph.output[0].CopyFrom(onnx.helper.make_empty_tensor_value_info("Y"))
    model.graph.value_info.append(value("T", [3, "k"]))
    assert shape_of(model, "X").startswith("(3, ")


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_an_axis_of_an_unknown_rank_gives_the_least_rank(op: str) -> None:
    module = from_onnx(one(op, "X", X, axis=1))
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    result = structir.interpret(module, "main", x)
    assert np.allclose(result, expected(one(op, "X", X, axis=1), {"X": x})[0], 1e-5)
    with pytest.raises(StructIRError):
        structir.interpret(module, "main", x[0, 0])


def test_reductions_of_unknown_rank() -> None:
    model = one("ReduceMean", "X a", X, constants={"a": [-1]}, keepdims=0)
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    result = structir.interpret(from_onnx(model), "main", x)
    assert np.allclose(result, expected(model, {"X": x})[0], 1e-5)


def test_operands_of_concat_share_their_rank_and_sizes() -> None:
    model = one("Concat", "X Z", X, value("Z", [4, 5]), axis=1)
    assert shape_of(model, "X").startswith("(4, ")


REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
ANY_RANK = [
    *[one(f"Reduce{op}", "X", X, keepdims=keep) for op in REDUCTIONS for keep in (0, 1)],
    *[
        one(f"Reduce{op}", "X a", X, constants={"a": axes}, keepdims=keep)
        for op in ("Sum", "LogSumExp")
        for axes in ([1], [-1], [0, -1])
        for keep in (0, 1)
    ],
    one("ReduceSum", "X", X, noop_with_empty_axes=1),
    *[one("Concat", "X W", X, W, axis=axis) for axis in (0, 1, -1, -2)],
    one("Concat", "X", X, axis=-1),
    *[one("ArgMax", "X", X, axis=axis, keepdims=axis) for axis in (0, 1)],
    *[one("CumSum", "X a", X, constants={"a": np.int64(axis)}) for axis in (1, -1)],
    *[one("Unsqueeze", "X a", X, constants={"a": [axis]}) for axis in (0, -1)],
]


@pytest.mark.parametrize("number", range(len(ANY_RANK)))
def test_ops_of_tensors_of_unknown_rank_equal_the_reference(number: int) -> None:
    model, rng = ANY_RANK[number], np.random.default_rng(number)
    module = from_onnx(model)
    executable = structir.compile(module)["main"]
    for shape in ((2, 3, 4), (3, 4), (2, 1, 3, 2)):
        inputs = {i.name: rng.uniform(0.5, 2, shape).astype("float32") for i in model.graph.input}
        (reference,) = expected(model, inputs)
        for result in (
            executable(*inputs.values()),
            structir.interpret(module, "main", *inputs.values()),
        ):
            assert result.shape == reference.shape
            np.testing.assert_allclose(result, reference, 1e-5)


@pytest.mark.parametrize(
    ("model", "shapes", "shown"),
    [
        (one("GlobalAveragePool", "X", X), {"X": ("n", 3, "h", 8)}, "(n, 3, 1, 1)"),
        (one("Flatten", "X", X), {"X": ("n", 3, "h", 8)}, "(n, 24 * h)"),
        (one("Relu", "X", value("X", [1, 4])), {"X": ("batch", 4)}, "(batch, 4)"),
        (one("Relu", "X", value("X", ["n", 4])), {"X": (2, 4)}, "(2, 4)"),
        (one("Add", "X W", X, W), {"X": ("n", 3), "W": ("2 * n - n", 1)}, "(n, 3)"),
        (one("Relu", "X", X), {"X": ()}, "()"),
    ],
)
def test_shapes_declare_inputs(model: Any, shapes: Any, shown: str) -> None:
    before = model.SerializeToString()
    result = from_onnx(model, shapes=shapes)["main"].ret_struct_info
    assert isinstance(result, TensorStructInfo) and dims_text(result.dims) == shown
    assert model.SerializeToString() == before, "the model of the caller is unchanged"


def test_declared_shapes_of_other_values_do_not_apply_to_given_shapes() -> None:
    inner, sizes = value("h", [1, 4]), {"X": ("n", 4)}
    model = made([node("Relu", "X", "h"), node("Exp", "h", "Y")], [value("X", [1, 4])], ["Y"])
    model.graph.value_info.append(inner)
    model.graph.output[0].CopyFrom(value("Y", [1, 4]))
    module = from_onnx(model, shapes=sizes)
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    np.testing.assert_allclose(
        structir.compile(module)["main"](x), np.exp(np.maximum(x, 0)), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"Z": (1,)}, "expected the name of an input, found 'Z'"),
        ({"X": "n"}, "expected a tuple of sizes, found 'n'"),
        ({"X": 3}, "expected a tuple of sizes, found 3"),
        ({"X": (1, -1)}, "expected an integer or a name, found -1"),
        ({"X": (1, True)}, "expected an integer or a name, found True"),
        ({"X": (1, "?")}, "expected an integer or a name, found '?'"),
        ({"X": (1, 2.5)}, "expected an integer or a name, found 2.5"),
        ({"X": (1,)}, "expected 2 sizes, found 1"),
        ({"X": (1, 2**70)}, "expected an integer or a name, found 1180591620717411303424"),
        ([("X", (1, 2))], "expected a dict of shapes by name, found list"),
    ],
)
def test_wrong_shapes_are_errors(shapes: Any, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as error:
        from_onnx(one("Relu", "X", value("X", ["n", 4])), shapes=shapes)
    assert error.value.diagnostics[0].hint


def test_sequences_and_constants_have_no_shape() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    model = made([node("SequenceLength", "s", "Y")], [sequence], ["Y"])
    with pytest.raises(DiagnosticError, match="expected the name of a tensor, found 's'"):
        from_onnx(model, shapes={"s": (2, 3)})
    model = made([node("Add", "X W", "Y")], [X, W], ["Y"], {"W": np.ones(3, "float32")})
    for options in ({}, {"values": {"X": np.ones(3, "float32")}}):
        with pytest.raises(DiagnosticError, match=r"expected the name of an input, found '[WX]'"):
            from_onnx(model, shapes={"X" if options else "W": (3,)}, **options)


def test_sparse_initializers_have_no_shape_and_no_other_value() -> None:
    elements = helper.make_tensor("W", TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [2], [0, 3])
    model = made([node("MatMul", "X W", "Y")], [value("X", ["n", 2]), value("W", [2, 2])], ["Y"])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(elements, indices, [2, 2]))
    assert [p.name for p in from_onnx(model)["main"].params] == ["X"]
    for options in ({"shapes": {"W": (2, 2)}}, {"values": {"W": np.ones((2, 2), "float32")}}):
        with pytest.raises(DiagnosticError, match="the name of an input, found 'W'") as error:
            from_onnx(model, **options)
        assert error.value.diagnostics[0].hint == "use X"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"Z": np.ones(2, "float32")}, "expected the name of an input, found 'Z'"),
        ({"X": np.ones((2, 4))}, "X: expected float32, found float64"),
        ({"X": "text"}, "X: expected float32, found <U4"),
        (
            {"X": np.ones((2, 3), "float32")},
            r"expected R.Tensor\(\(n, 4\), .*found R.Tensor\(\(2, 3\)",
        ),
        ({"X": np.ones(4, "float32")}, r"expected R.Tensor\(\(n, 4\), .*found R.Tensor\(\(4,\)"),
        ([np.ones((2, 4), "float32")], "expected a dict of arrays by name, found list"),
        ({"X": [[1], [1, 2]]}, "X: expected an array .*inhomogeneous"),
    ],
)
def test_wrong_values_are_errors(values: Any, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as error:
        from_onnx(one("Relu", "X", value("X", ["n", 4])), values=values)
    assert error.value.diagnostics[0].hint


def test_strings_are_no_values() -> None:
    declared = value("X", ["n"], TensorProto.STRING)
    for words in (["a"], np.array(["a"], object)):
        with pytest.raises(DiagnosticError, match="X: expected numbers, found") as error:
            from_onnx(one("Identity", "X", declared), values={"X": words})
        assert error.value.diagnostics[0].hint == "omit `X` in `values`, and pass it in calls"
    with pytest.raises(DiagnosticError, match="X: expected float32, found <U4") as error:
        from_onnx(one("Relu", "X", value("X", ["n", 4])), values={"X": "text"})
    assert "asarray" not in str(error.value.diagnostics[0].hint)


def test_declared_outputs_do_not_contradict_given_shapes() -> None:
    model = made([node("Relu", "X", "Y")], [value("X", [1, 4])], ["Y"])
    model.graph.output[0].CopyFrom(value("Y", [1, 4]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = from_onnx(model, shapes={"X": (np.int64(2), 4)})
    assert dims_text(module["main"].ret_struct_info.dims) == "(2, 4)"  # type: ignore[union-attr]
