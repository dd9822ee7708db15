"""Nested functions become functions of the module, and no name of them remains."""

import numpy as np
import pytest

import structir
from structir import passes
from structir.analysis.variables import walk_values
from structir.errors import StructIRError
from structir.ir.bodies import bindings_of
from structir.ir.expr import Function, GlobalVar

HEADER = """
@I.ir_module
class Module:
    @R.function
    def apply(
        f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32")),
        x: R.Tensor((4,), "float32"),
    ) -> R.Tensor((4,), "float32"):
        return f(x)

    @R.function
    def main(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int32")):
        n = T.int64()
"""
LOOP = """@R.function
def loop(i: R.Tensor((), "int32"), s: {info}) -> {info}:
    c = R.less(i, R.const(10, "int32"))
    if c:
        j = R.add(i, {step})
        r = loop(j, {value})
    else:
        r = s
    return r
"""
SCALAR, VECTOR = 'R.Tensor((), "int32")', 'R.Tensor((n,), "float32")'
BODIES = {
    "no capture": """@R.function
def f(y: R.Tensor(("m",), "float32")):
    return R.add(y, y)
return f(f(x))""",
    "capture": """@R.function
def f(y: R.Tensor((n,), "float32")):
    return R.add(y, x)
return f(R.exp(x))""",
    "alias": """with R.dataflow():
    @R.function
    def f(y: R.Tensor((n,), "float32")):
        return R.add(y, x)
    g = f
    h = g
    a = h(x)
    b = f(a)
    R.output(b)
return b""",
    "output of its block that captures a local value": """with R.dataflow():
    a = R.exp(x)
    @R.function
    def f(y: R.Tensor((n,), "float32")):
        return R.add(y, a)
    R.output(f)
return f(x)""",
    "recursion": LOOP.format(info=SCALAR, step='R.const(1, "int32")', value="R.add(s, j)")
    + 'return loop(k, R.const(0, "int32"))',
    "recursion with captures": LOOP.format(info=VECTOR, step="k", value="R.add(s, x)")
    + "return loop(k, R.zeros((n,), 'float32'))",
    "recursion with a size": LOOP.format(info=VECTOR, step="k", value="R.ones((n,), 'float32')")
    + "return loop(k, R.zeros((n,), 'float32'))",
    "closures that call closures": """@R.function
def f(y: R.Tensor((n,), "float32")):
    return R.add(y, x)
@R.function
def g(y: R.Tensor((n,), "float32")):
    @R.function
    def h(z: R.Tensor((n,), "float32")):
        return R.multiply(f(z), y)
    return h(f(y))
return g(x)""",
    "captured value of an unknown size": """rows: R.Tensor(("_", 1)) = R.reshape(x, (-1, 1))
@R.function
def f(y: R.Tensor(("m",), "float32")):
    return R.multiply(y, R.sum(rows))
return f(x)""",
    "argument": """@R.function
def f(y: R.Tensor((4,), "float32")):
    return R.exp(y)
return cls.apply(f, R.ones((4,), "float32"))""",
    "branches": """@R.function
def f(y: R.Tensor(("m",), "float32")):
    return R.exp(y)
@R.function
def g(y: R.Tensor(("m",), "float32")):
    return R.negative(y)
if R.greater(k, R.const(0, "int32")):
    chosen = f
else:
    chosen = g
return chosen(x)""",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_lifted_module_has_no_nested_function_and_no_alias(body):
    text = HEADER + "".join(f"        {line}\n" for line in body.splitlines())
    module = structir.parse(text)
    lifted = passes.LambdaLift()(module)
    for function in lifted.functions.values():
        values = [binding.value for binding in bindings_of(function)]
        assert not any(isinstance(value, Function | GlobalVar) for value in values)
    assert structir.structural_equal(structir.parse(lifted.script()), lifted)
    inputs = np.arange(1, 5, dtype="float32"), np.int32(3)
    expected = structir.interpret(module, "main", *inputs)
    assert np.array_equal(structir.interpret(lifted, "main", *inputs), expected)
    assert np.allclose(structir.compile(lifted)["main"](*inputs), expected)


def test_a_capturing_closure_that_is_a_result_stays_and_any_other_result_is_the_function():
    body = """        @R.function
        def f(y: R.Tensor((n,), "float32")):
            return R.add(y, x)
        @R.function
        def g(y: R.Tensor(("m",), "float32")):
            return R.exp(y)
        return f, g
"""
    lifted = passes.LambdaLift()(structir.parse(HEADER + body))
    (binding,) = lifted["main"].bindings()
    assert binding.var.name == "f"
    references = {item.name for item in walk_values(lifted["main"]) if type(item) is GlobalVar}
    assert references == {"main_g"}


def test_bindings_that_use_no_closure_are_the_same_objects():
    body = """        @R.function
        def f(y: R.Tensor((n,), "float32")):
            return R.add(y, x)
        a = R.exp(x)
        b = f(a)
        c = R.exp(b)
        d = R.add(c, a)
        return d
"""
    module = structir.parse(HEADER + body)
    before, after = [
        {binding.var.name: binding for binding in each["main"].bindings()}
        for each in (module, passes.LambdaLift()(module))
    ]
    assert [name for name in after if after[name] is before[name]] == ["a", "c", "d"]


def test_a_closure_with_a_call_that_fails_at_run_time_stays():
    text = """
@R.function
def main(
    x: R.Tensor(("n",), "float32"), y: R.Tensor(("n + 1",), "float32"), c: R.Tensor((), "bool")
):
    @R.function
    def f(z: R.Tensor(("n",), "float32")):
        return R.exp(x)
    if c:
        r = f(y)
    else:
        r = f(x)
    return r
"""
    module = structir.parse(text)
    lifted = passes.LambdaLift()(module)
    assert structir.structural_equal(structir.parse(lifted.script()), lifted)
    arguments = np.ones(2, "float32"), np.ones(3, "float32")
    assert structir.interpret(lifted, "main", *arguments, np.False_).shape == (2,)
    with pytest.raises(StructIRError, match=r"expected n = 2, found 3"):
        structir.interpret(lifted, "main", *arguments, np.True_)


BOUND = [
    ("*s", "float32", "b", "x: R.Tensor(('*s',), 'float32')"),
    ("3", "'T", "b", 'x: R.Tensor((3,), "\'T")'),
    ("*s", "'T", "b", "k: R.Tensor((3,), \"'T\"), x: R.Tensor(('*s',), 'float32')"),
    ("*s", "float32", "f", "x: R.Tensor(('*s',), 'float32')"),
    ("*s", "float32", "f", "w: R.Object"),
]


@pytest.mark.parametrize(("sizes", "dtype", "output", "parameters"), BOUND)
def test_a_value_is_passed_that_binds_a_row_or_a_dtype_variable(sizes, dtype, output, parameters):
    text = f"""
@R.function
def main({parameters}, u: R.Object, i: R.Tensor((), "int32")):
    with R.dataflow():
        {'bound = R.match_cast(w, R.Tensor(("*s",), "float32"))' * ("w:" in parameters)}
        @R.function
        def f(j: R.Tensor((), "int32")) -> R.Tensor(("{sizes}",), "{dtype}"):
            if R.greater(j, R.const(1, "int32")):
                r = R.match_cast(u, R.Tensor(("{sizes}",), "{dtype}"))
            else:
                r = f(R.add(j, R.const(1, "int32")))
            return r
        {"b = f(i)" * (output == "b")}
        R.output({output})
    return {"b" if output == "b" else "f(i)"}
"""
    module = structir.parse(text)
    lifted = passes.LambdaLift()(module)
    assert set(lifted) == {"main", "main_f"}
    assert structir.structural_equal(structir.parse(lifted.script()), lifted)
    ones = [np.ones(3, "float32")] * (len(module["main"].params) - 1)
    result = structir.interpret(lifted, "main", *ones, np.int32(0))
    assert np.array_equal(result, np.ones(3))
    with pytest.raises(StructIRError, match="expected"):
        structir.interpret(lifted, "main", *ones[:-1], np.ones(4, "float64"), np.int32(0))


def test_a_closure_stays_if_no_value_binds_its_row():
    text = """
@R.function
def main(w: R.Object, u: R.Object, i: R.Tensor((), "int32")):
    bound: R.Object = R.match_cast(w, R.Tensor(("*s",), "float32"))
    @R.function
    def f(j: R.Tensor((), "int32")):
        r = R.match_cast(u, R.Tensor(("*s",), "float32"))
        return r
    return f(i)
"""
    module = structir.parse(text)
    lifted = passes.LambdaLift()(module)
    assert structir.structural_equal(structir.parse(lifted.script()), lifted)
    arguments = np.ones(2, "float32"), np.ones(3, "float32"), np.int32(0)
    with pytest.raises(StructIRError, match="expected"):
        structir.interpret(lifted, "main", *arguments)
