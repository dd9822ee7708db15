"""Functions of a model: nested, with attributes of the caller, overloads and absent operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, FunctionProto, helper

import structir
from structir.errors import DiagnosticError
from structir.frontend.onnx.model import from_onnx
from tests.frontend.models import expected, made, node, value

LOCAL = "local"
X = np.linspace(-2, 2, 6, dtype="float32").reshape(2, 3)


def function(
    name: str, inputs: str, outputs: str, nodes: list[Any], attributes: Any = (), **more: Any
) -> FunctionProto:
    """Returns a function of the domain `local`."""
    opsets = [helper.make_opsetid("", more.pop("opset", 21)), helper.make_opsetid(LOCAL, 1)]
    return helper.make_function(
        LOCAL, name, inputs.split(), outputs.split(), nodes, opsets, list(attributes), **more
    )


def call(name: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return node(name, inputs, outputs, domain=LOCAL, **attributes)


def referring(one: Any, kind: int = AttributeProto.FLOAT, **references: str) -> Any:
    """Returns a node with attributes that refer to those of the caller."""
    for name, target in references.items():
        one.attribute.append(AttributeProto(name=name, type=kind, ref_attr_name=target))
    return one


def model(nodes: list[Any], functions: list[FunctionProto]) -> Any:
    result = made(nodes, [value("x", ["n", 3])], ["y"], functions=functions)
    result.opset_import.append(helper.make_opsetid(LOCAL, 1))
    return result


def agree(one: Any) -> None:
    (result,) = expected(one, {"x": X})
    np.testing.assert_allclose(structir.interpret(from_onnx(one), "main", X), result, rtol=1e-5)


def test_attributes_of_the_caller_reach_nested_functions() -> None:
    leaky = referring(node("LeakyRelu", "a", "b"), alpha="slope")
    inner = function("inner", "a", "b", [leaky], ["slope"])
    outer = function("outer", "a", "b", [referring(call("inner", "a", "b"), slope="s")], ["s"])
    module = from_onnx(model([call("outer", "x", "y", s=0.3)], [inner, outer]))
    wanted = np.where(X < 0, X * np.float32(0.3), X)
    np.testing.assert_allclose(structir.interpret(module, "main", X), wanted, rtol=1e-5)


def test_defaults_of_attributes() -> None:
    leaky = referring(node("LeakyRelu", "a", "b"), alpha="slope")
    default = helper.make_attribute("slope", 0.25)
    one = function("leaky", "a", "b", [leaky], attribute_protos=[default])
    module = from_onnx(model([call("leaky", "x", "z"), call("leaky", "z", "y", slope=0.5)], [one]))
    wanted = np.where(X < 0, X * 0.125, X)
    np.testing.assert_allclose(structir.interpret(module, "main", X), wanted, rtol=1e-5)


def test_attributes_in_nested_graphs() -> None:
    branches = [
        helper.make_graph([one], "branch", [], [value("r", None)])
        for one in (referring(node("LeakyRelu", "a", "r"), alpha="slope"), node("Neg", "a", "r"))
    ]
    nodes = [
        node("ReduceSum", "a", "s", keepdims=0),
        node("Sign", "s", "t"),
        helper.make_node("Cast", ["t"], ["c"], to=9),
        helper.make_node("If", ["c"], ["b"], then_branch=branches[0], else_branch=branches[1]),
    ]
    agree(
        model(
            [call("choose", "x", "y", slope=0.2)], [function("choose", "a", "b", nodes, ["slope"])]
        )
    )


def test_overloads() -> None:
    first = function("act", "a", "b", [node("Neg", "a", "b")], overload="first")
    second = function("act", "a", "b", [node("Exp", "a", "b")], overload="second")
    one = call("act", "x", "z", overload="second"), call("act", "z", "y", overload="first")
    module = from_onnx(model(list(one), [first, second]))
    np.testing.assert_allclose(structir.interpret(module, "main", X), -np.exp(X), rtol=1e-5)
    with pytest.raises(DiagnosticError, match="act"):
        from_onnx(model([call("act", "x", "y", overload="third")], [first]))


def test_absent_operands() -> None:
    body = [node("Clip", "a low high", "b")]
    clip = function("clip", "a low high", "b", body)
    nodes = [
        node("ReduceMean", "x", "m", keepdims=0),
        call("clip", "x m", "z"),
        call("clip", "z _ m", "y"),
    ]
    module = from_onnx(model(nodes, [clip]))
    wanted = np.clip(np.clip(X, X.mean(), None), None, X.mean())
    np.testing.assert_allclose(structir.interpret(module, "main", X), wanted, rtol=1e-5, atol=1e-6)


def test_names_of_a_body_are_its_own() -> None:
    body = [node("Neg", "x", "y"), node("Exp", "y", "z")]
    one = function("f", "x", "z", body)
    agree(model([call("f", "x", "z"), node("Add", "z x", "w"), call("f", "w", "y")], [one]))


def test_opset_of_a_body() -> None:
    """Softmax flattens the axes from `axis` on before opset 13."""
    one = function("f", "a", "b", [node("Softmax", "a", "b", axis=0)], opset=11)
    module = from_onnx(model([call("f", "x", "y")], [one]))
    wanted = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(structir.interpret(module, "main", X), wanted, rtol=1e-5)


def test_function_of_a_standard_name_replaces_the_op() -> None:
    one = function("Add", "a b", "c", [node("Sub", "a b", "c")])
    agree(model([call("Add", "x x", "y")], [one]))


def test_op_that_only_a_body_uses() -> None:
    one = function("f", "a", "b", [node("Neg", "a", "c"), call("Unknown", "c", "b")])
    with pytest.raises(DiagnosticError, match="local::Unknown"):
        from_onnx(model([call("f", "x", "y")], [one]))
