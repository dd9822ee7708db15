"""Decorated functions and classes capture the variables of the scope that they are written in."""

import linecache

import numpy as np

import structir
from structir.script import I, R, T
from structir.script.source import _closure_values, _evaluated_names

ROWS = 7
X = np.ones((3, 4), "float32")


def test_variables_named_only_in_annotations_are_captured():
    rows, columns = T.dynamic("rows"), 4

    @R.function
    def main(x: R.Tensor((rows, columns), "float32")) -> R.Tensor((rows, columns), "float32"):
        return R.exp(x)

    @I.kernel
    def kernel(x: R.Tensor((columns,), "float32"), out: R.Tensor((columns,), "float32")):
        for i in range(4):
            out[i] = x[i]

    assert str(main.params[0].struct_info) == 'R.Tensor((rows, 4), dtype="float32")'
    assert kernel.params[0].struct_info.dims == (4,)


def test_a_class_captures_variables_of_the_function_around_it():
    def model(columns, layers, weight, ROWS):
        @I.ir_module
        class Module:
            @I.kernel
            def scaled(x: R.Tensor((columns,), "float32"), out: R.Tensor((columns,), "float32")):
                for i in range(columns):
                    out[i] = x[i] * layers

            @R.function
            def main(x: R.Tensor((ROWS, columns), "float32")):
                for _ in range(layers):
                    x = R.matmul(x, weight)
                return x

        return Module

    for layers in (1, 2):
        module = model(4, layers, 2 * np.eye(4, dtype="float32"), 3)
        result = structir.compile(module)["main"](X)
        np.testing.assert_array_equal(result, X * 2**layers)
        assert structir.structural_equal(structir.parse(module.script()), module)


def test_the_nearest_variable_is_captured():
    ROWS = 3

    def outer():
        columns = 4

        def inner():
            @R.function
            def main(x: R.Tensor((ROWS, columns), "float32")):
                return R.reshape(x, (columns, ROWS))

            return main

        return inner()

    assert outer().params[0].struct_info.dims == (3, 4)

    @R.function
    def bound_inside(x: R.Tensor((3, 4), "float32")):
        ROWS = R.exp(x)
        return ROWS

    assert "R.exp(x)" in str(bound_inside)


FUTURE = """from __future__ import annotations
from structir.script import I, R, T


def model(columns, shape):
    rows = T.dynamic("rows")

    @R.function
    def main(x: R.Tensor((rows, columns), "float32"), y: R.Tensor((n, n), "int8")):
        n = T.int64()
        return R.exp(x)

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(shape, "float32")) -> R.Tensor(shape, "float32"):
            return R.exp(x)

    return main, Module["main"]
"""


def test_annotations_that_python_does_not_evaluate():
    linecache.cache["model.py"] = (len(FUTURE), None, FUTURE.splitlines(True), "model.py")
    namespace = {}
    exec(compile(FUTURE, "model.py", "exec"), namespace)
    first, second = namespace["model"](4, (2, 3))
    infos = [str(param.struct_info) for param in (*first.params, *second.params)]
    dims = ['(rows, 4), dtype="float32"', '(n, n), dtype="int8"', '(2, 3), dtype="float32"']
    assert infos == [f"R.Tensor({text})" for text in dims]


def test_variables_of_a_function_that_evaluates_annotations_on_demand():
    def annotate(_format):  # as Python 3.14 attaches it, never called here
        raise AssertionError(f"executed {hidden}")

    hidden = 4

    def main(x):
        return R.zeros((hidden, 2), "int8")

    main.__annotate__ = annotate
    main.__annotations__ = {}
    assert _closure_values(main)["hidden"] == 4
    assert list(_evaluated_names(main)) == []
