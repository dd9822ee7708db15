"""Mistakes that people make: one message each, with its place and what to write instead."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import structir
from structir import passes
from structir.distributed import plan, shard
from structir.errors import DiagnosticError, ShapeMismatchError, StructIRError
from structir.ir import BlockBuilder, Var, find_op
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

HEAD = '@R.function\ndef main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):\n'
IN_A_BODY = [  # the lines of a function, what is said, what to write
    ("y = R.astype(x, 'flaot32')", "dtype must be a dtype", "did you mean 'float32'?"),
    ("y = R.zeros((3,), 'double')", "not 'double'", "did you mean 'float64'?"),
    ("y = R.const(1, 'chars')", "'chars' is not a dtype", "there are bfloat16, bool"),
    ("y = R.const('a', 'float32')", "this is no constant", "R.const([1, 2]"),
    ("y = R.add(x, R.const(1, 'int32'))", "x and y differ in dtype", "R.astype converts"),
    ("y = R.matmul(w, w)", "disagree on k", "the line of matmul is"),
    ("y = R.matmul(x)", "rhs must be given", "it is written R.matmul(lhs, rhs, out_dtype=None)"),
    ("y = R.exp(x, w)", "2 arguments are too many", "it is written R.exp(x)"),
    ("y = R.sum(x, axes=1)", "there is no parameter axes", "did you mean axis?"),
    ("y = R.sum(x, axis='a')", "not 'a'", "it is written R.sum(x, axis=None, keepdims=False)"),
    ("y = R.sum(x, axis=5)", "axis 5 is out of range", "axes run from -2 to 1"),
    ("y = R.concat(x, axis=1)", "must be a tuple of tensors", "R.concat([tensors, ...], axis=0)"),
    ("y = R.nn.conv2d(x, w)", "x has 2 axes, but the layout NCHW has 4", "R.nn.conv2d(x, weight"),
    ("y = R.matmull(x, w)", "there is no op R.matmull", "did you mean R.matmul?"),
    ("y = R.relu(x)", "there is no op R.relu", "did you mean R.nn.relu"),
    ("y = x.sum()", "x.sum is not part of the language", "did you mean R.sum?"),
    ("y = np.exp(x)", "np.exp is not part of the language", "did you mean R.exp?"),
    ("y = R.add(x, ww)", "ww is not defined", "did you mean w?"),
    ("y = R.zeros((k,), 'float32')", "k is not defined", "n = T.int64()"),
    ("y = x[0]", "only a tuple can be indexed", "use R.take or R.strided_slice"),
    ("y = (x, w)[2]", "there is no field 2 in a tuple of 2", "fields count from 0"),
    ("y = x < w < x", "Python's chain of comparisons", "compare two values at a time"),
    ("y = x and w", "Python's and/or", "use R.logical_and"),
    ("x += w", "Python's assignment with an operator", "y = y + x"),
    ("y: R.Tensor((3, 3), 'float32') = x", "contradicts its value", "correct the annotation"),
    ("for i in range(3): y = x", "Python's for is not part", "repeat by recursion"),
]


def told(text: str) -> str:
    """The one message of a wrong program, which has its line and carets."""
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text, "model.py")
    (diagnostic,) = caught.value.diagnostics
    assert re.search(r"--> model\.py:\d+:\d+\n +\|\n", str(diagnostic))
    assert re.search(r"\n\d+ \| .*\n(?: +\| +-+.*\n)* +\| +\^+", str(diagnostic))
    return str(diagnostic)


@pytest.mark.parametrize(("line", "what", "hint"), IN_A_BODY, ids=[case[0] for case in IN_A_BODY])
def test_in_a_body(line: str, what: str, hint: str) -> None:
    message, _, end = told(f"{HEAD}    {line}\n    return x\n").partition("= help: ")
    assert what in message and "--> model.py:3:" in message
    assert hint in end


AROUND = [
    ("@R.function\ndef main(x: R.Tensr((3,), 'int8')):\n    return x", "did you mean R.Tensor?"),
    ("@R.function\ndef main(x: R.Tensor((3,), 'int9')):\n    return x", "did you mean 'int"),
    ("@R.function\ndef main(x: R.Tensor((-3,), 'int8')):\n    return x", "a size is at least 0"),
    ("@R.function\ndef main(x: R.Tensor((2.5,), 'int8')):\n    return x", "a size is an integer"),
    ("@R.function\ndef main(x):\n    return x", "R.Object says that nothing is known"),
    ("@R.function\ndef main(x: R.Object = 3):\n    return x", "without defaults or stars"),
    ("@R.function\ndef main(x: R.Object, x: R.Object):\n    return x", "another name"),
    ("@R.function\ndef main(x: R.Object):\n    y = x", "return y, z"),
    ("@R.func\ndef main(x: R.Object):\n    return x", "write @R.function"),
    ("def main(x: R.Object):\n    return x", "write @R.function"),
    ("x = 3", 'other Python goes under if __name__ == "__main__"'),
]


@pytest.mark.parametrize(("text", "hint"), AROUND, ids=[case[1] for case in AROUND])
def test_around_a_body(text: str, hint: str) -> None:
    assert hint in told(text).partition("= help: ")[2]


def test_functions_of_the_module() -> None:
    lone = "    @R.function\n    def {}(x: R.Tensor((3,), 'int8')):\n        return {}\n"
    text = "@I.ir_module\nclass Mod:\n" + lone.format("double", "x")
    assert "did you mean double?" in told(text + lone.format("main", "Mod.duoble(x)"))
    assert "takes 1 argument, not 2" in told(text + lone.format("main", "Mod.double(x, x)"))
    assert "there are two functions double" in told(text + lone.format("double", "x"))


PROGRAM = structir.parse(HEAD + "    return R.matmul(x, w)\n")
X = Var("x", TensorStructInfo((4,), "float32"))


def in_a_function(*steps: Callable[[BlockBuilder], Any], param: Any = X) -> None:
    builder = BlockBuilder()
    with builder.function("main", [param]):
        for step in steps:
            step(builder)


def output(builder: BlockBuilder) -> None:
    builder.emit_func_output(X)


IN_PYTHON = {
    "takes a module or a function, not str: structir.parse": lambda: structir.compile("main.py"),
    "structir.compile takes a module": lambda: structir.compile(None),
    "structir.infer takes a module": lambda: structir.infer(3),
    "structir.save takes a module": lambda: structir.save(3, "module.sir"),
    "structir.interpret takes a module": lambda: structir.interpret(3, "main"),
    "the pass simplify takes a module": lambda: passes.Simplify()(3),
    "structir.parse takes a text, not bytes": lambda: structir.parse(b"main"),
    "unknown option 'round'; available: rounds": lambda: passes.Simplify(round=2),
    "simplify: rounds: expected an integer, found 'a'": lambda: passes.Simplify(rounds="a"),
    "unknown pass 'csee'; did you mean cse?": lambda: passes.find_pass("csee"),
    "there is no parameter z; there are: x, w": lambda: passes.Gradient(parameters="z")(PROGRAM),
    'help: say it by sizes={"n": 128}': lambda: plan(PROGRAM, workers=2),
    "no function `mian` in module; available: main": lambda: PROGRAM["mian"],
    "unknown backend 'gpu'; available: cpu": lambda: structir.compile(PROGRAM, target="gpu"),
    "unknown option 'threads'; available": lambda: structir.compile(PROGRAM, threads=3),
    "help: it is written R.add(x, y)": lambda: find_op("add")(X),
    "y must be a tensor, not 'a'": lambda: find_op("add")(X, "a"),
    "'flaot32' is not a dtype": lambda: TensorStructInfo((3,), "flaot32"),
    "a tensor has no axis of size -3": lambda: TensorStructInfo((-3,), "float32"),
    "3 is no shape": lambda: TensorStructInfo(3, "float32"),
    "a parameter is a Var with a StructInfo, not 'x'": lambda: in_a_function(param="x"),
    "only expressions can be bound, not 'a'": lambda: in_a_function(lambda b: b.emit("a")),
    "there is no open function": lambda: BlockBuilder().emit(X),
    "the open function has its result": lambda: in_a_function(output, output),
    "main has no result: call emit_func_output": in_a_function,
    "asked for: R.Tensor((3,)": lambda: in_a_function(
        lambda b: b.match_cast(X, TensorStructInfo((3,), "float32"))
    ),
}


@pytest.mark.parametrize("words", IN_PYTHON)
def test_in_python(words: str) -> None:
    with pytest.raises(StructIRError) as caught:
        IN_PYTHON[words]()
    assert words in str(caught.value)


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="did you mean gradient"):
        _ = passes.Gradiant
    with pytest.raises(AttributeError, match=r"there is no op R\.nn\.reluu"):
        _ = R.nn.reluu
    with pytest.raises(TypeError, match=r"structir\.compile\(f\)"):
        PROGRAM["main"](np.ones(3))


def test_files_that_are_not_there(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FileNotFoundError, match=r"none\.sir"):
        structir.load(tmp_path / "none.sir")
    with pytest.raises(FileNotFoundError, match=r"there is no such folder: .*none"):
        structir.save(PROGRAM, tmp_path / "none" / "module.sir")
    assert not list(tmp_path.iterdir())


A, B = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
CALLS = {
    "main takes 2 arguments, but 1 is given": (A,),
    "main takes 2 arguments, but 3 are given": (A, B, B),
    "parameter x: expected dtype float32, found float64": (A.astype(np.float64), B),
    "parameter x: expected 2 axes, found 1: shape (4,)": (A[0], B),
    "parameter w: axis 0: expected 4, found 3": (A, B.T),
    "parameter x: expected a tensor, found str 'abc'": ("abc", B),
    "parameter x: expected a tensor, found NoneType None": (None, B),
    "parameter x: expected dtype float32, found object": (np.array([[object()] * 4]), B),
}


@pytest.fixture(scope="module")
def main():  # type: ignore[no-untyped-def]
    return structir.compile(PROGRAM)["main"]


@pytest.mark.parametrize("words", CALLS)
def test_calls(main, words: str) -> None:  # type: ignore[no-untyped-def]
    for function in (main, lambda *args: structir.interpret(PROGRAM, "main", *args)):
        with pytest.raises((ShapeMismatchError, StructIRError), match=re.escape(words)):
            function(*CALLS[words])


def test_arguments_by_name_are_one_message_however_a_function_runs() -> None:
    text = PROGRAM.script()
    rows = HEAD.replace('("n", 4)', '("*n", 4)') + "    return R.matmul(x, w)\n"
    impure = HEAD.replace("@R.function", "@R.function(pure=False)")
    host = impure + '    return R.call_packed("none", x, w, sinfo_args=R.Object)\n'
    functions = [structir.compile(structir.parse(form))["main"] for form in (text, rows, host)]
    functions += [partial(structir.interpret, PROGRAM, "main"), shard(PROGRAM, grid=(2, 1))]
    for function in functions:
        with pytest.raises(StructIRError, match=r"by position, main\(x, w\), not w= \[E0001\]$"):
            function(A, w=B)
    for function in functions[1:]:
        with pytest.raises(StructIRError, match="main always gives new results"):
            function(A, B, out=A)
    with pytest.raises(ShapeMismatchError, match="out: expected an array, or one for each"):
        functions[0](A, B, out=3)
    with pytest.raises(StructIRError, match="num_threads must be a positive integer, found 'two'"):
        structir.compile(PROGRAM, num_threads="two")
