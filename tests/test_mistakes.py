"""Common mistakes: each gives one message with a location and a help line."""

import importlib
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
from structir.interpret import register_extern
from structir.ir import BlockBuilder, Var, find_op
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

HEAD = '@R.function\ndef main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):\n'
IN_A_BODY = [  # a line of a function, its message, its help
    ("y = R.astype(x, 'flaot32')", "dtype: expected a dtype", "did you mean 'float32'?"),
    ("y = R.zeros((3,), 'double')", "found 'double'", "did you mean 'float64'?"),
    ("y = R.const(1, 'chars')", "unknown dtype 'chars'", "use one of bfloat16, bool"),
    (
        "y = R.const('a', 'float32')",
        "R.const: expected numbers of dtype float32, found 'a'",
        "R.const([1, 2]",
    ),
    ("y = R.add(x, R.const(1, 'int32'))", "dtype mismatch", "R.astype("),
    ("y = R.matmul(w, w)", "contraction dimension mismatch", "`R.matmul(w, R.permute_dims(w))`"),
    ("y = R.matmul(x)", "missing operand `rhs`", "`R.matmul(lhs, rhs, out_dtype=None)`"),
    ("y = R.exp(x, w)", "expected 1 argument, found 2", "call it as `R.exp(x)`"),
    ("y = R.sum(x, axes=1)", "unexpected keyword argument `axes`", "did you mean `axis`?"),
    ("y = R.sum(x, axis='a')", "found 'a'", "`R.sum(x, axis=None, keepdims=False)`"),
    (
        "y = R.sum(x, axis=5)",
        "axis out of range for x: expected -2 to 1, found 5",
        "write an axis from -2 to 1",
    ),
    ("y = R.concat(x, axis=1)", "expected a tuple of tensors", "write a list: `[x]`"),
    ("y = R.nn.conv2d(x, w)", "expected 4 axes (layout NCHW), found 2", ""),
    ("y = R.matmull(x, w)", "unknown op `R.matmull`", "did you mean `R.matmul`?"),
    ("y = R.relu(x)", "unknown op `R.relu`", "did you mean `R.nn.relu`"),
    ("y = R.any(x)", "unknown op `R.any`", 'write `R.max(R.astype(x, "bool"))`'),
    ("y = R.astype(x, 'int8') + 300", "in the range of int8, found 300", "from -128 to 127"),
    ("k = R.astype(x, 'int8'); y = k * 0.5", "dtype mismatch: x has int8", "`R.astype(k, "),
    ("y = min(x, 2)", "T.min: expected a size, found x", "write an integer"),
    ("y = x.sum()", "tensors have no attribute `sum`", "call the op: `R.sum(x)`"),
    ("y = np.exp(x)", "`np.exp` is not part of the language", "did you mean `R.exp`?"),
    ("y = R.add(x, ww)", "`ww` is not defined", "did you mean `w`?"),
    ("y = R.zeros((k,), 'float32')", "`k` is not defined", "`k = T.int64()`"),
    ("y = x[w]", "expected a constant integer as the index", "R.take(x, w"),
    ("y = (x, w)[2]", "tuple index 2 out of range for a 2-tuple", "use an index from -2 to 1"),
    ("y = x is w", "`is` is not supported in", "compare by `<`"),
    ("y = x and w", "`and` is not supported in @R.function", "`(x > 0) & (y > 0)`"),
    ("x[0] += w", "augmented assignment is not supported in", "`R.slice_scatter(...)`"),
    ("y: R.Tensor((3, 3), 'float32') = x", "contradicts its value", "omit the annotation"),
    ("for i in x: y = x", "`for` is not supported in @R.function (loops", "use `R.scan`"),
]


def message_of(text: str) -> str:
    """Returns the only message of an invalid program; checks its source line and carets."""
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text, "model.py")
    (diagnostic,) = caught.value.diagnostics
    assert re.search(r"--> model\.py:\d+:\d+\n +\|\n", str(diagnostic))
    assert re.search(r"\n\d+ \| .*\n(?: +\| +-+.*\n)* +\| +\^+", str(diagnostic))
    return str(diagnostic)


@pytest.mark.parametrize(
    ("line", "expected", "hint"), IN_A_BODY, ids=[case[0] for case in IN_A_BODY]
)
def test_in_a_body(line: str, expected: str, hint: str) -> None:
    message, _, end = message_of(f"{HEAD}    {line}\n    return x\n").partition("= help: ")
    assert expected in message and "--> model.py:3:" in message
    assert hint in end


AROUND = [
    ("@R.function\ndef main(x: R.Tensr((3,), 'int8')):\n    return x", "did you mean `R.Tensor`?"),
    ("@R.function\ndef main(x: R.Tensor((3,), 'int9')):\n    return x", "did you mean 'int"),
    (
        "@R.function\ndef main(x: R.Tensor((-3,), 'int8')):\n    return x",
        "write a size of at least 0",
    ),
    (
        "@R.function\ndef main(x: R.Tensor((2.5,), 'int8')):\n    return x",
        "write an integer or an expression over dims:",
    ),
    ("@R.function\ndef main(x=2.0):\n    return x", 'write the dtype: `x=R.const(2.0, "float32")`'),
    (
        "@R.function\ndef main(*x: R.Object):\n    return x",
        "write every parameter as `name: R.Tensor((n,",
    ),
    ("@R.function\ndef main(x: R.Object, x: R.Object):\n    return x", "rename one: `x_1`"),
    ("@R.function\ndef main(x: R.Object):\n    y = x", "return y, z"),
    (
        "@R.func\ndef main(x: R.Object):\n    return x",
        "write `@R.function` or `@I.kernel` above `def",
    ),
    ("def main(x: R.Object):\n    return x", "write `@R.function` or `@I.kernel` above `def"),
    ("x = 3", "move other Python code under `if __name__ =="),
]


@pytest.mark.parametrize(("text", "hint"), AROUND, ids=[case[1] for case in AROUND])
def test_around_a_body(text: str, hint: str) -> None:
    assert hint in message_of(text).partition("= help: ")[2]


def test_functions_of_the_module() -> None:
    lone = "    @R.function\n    def {}(x: R.Tensor((3,), 'int8')):\n        return {}\n"
    text = "@I.ir_module\nclass Mod:\n" + lone.format("double", "x")
    assert "no function `duoble` in the module" in message_of(
        text + lone.format("main", "Mod.duoble(x)")
    )
    assert "expected 1 argument, found 2" in message_of(
        text + lone.format("main", "Mod.double(x, x)")
    )
    assert "duplicate function `double`" in message_of(text + lone.format("double", "x"))


PROGRAM = structir.parse(HEAD + "    return R.matmul(x, w)\n")
KERNEL = next(
    iter(
        structir.parse(
            "@I.kernel\ndef k(x: R.Tensor(('n',), 'float32'), out: R.Tensor(('n',), 'float32')):\n"
            "    out[0] = x[0]\n"
        ).functions.values()
    )
)
X = Var("x", TensorStructInfo((4,), "float32"))


def in_a_function(*steps: Callable[[BlockBuilder], Any], param: Any = X) -> None:
    builder = BlockBuilder()
    with builder.function("main", [param]):
        for step in steps:
            step(builder)


def output(builder: BlockBuilder) -> None:
    builder.emit_func_output(X)


IN_PYTHON = {
    "found str; help: `structir.parse(text)`": lambda: structir.compile("main.py"),
    "structir.compile: expected a module or a": lambda: structir.compile(None),
    "structir.infer: expected a module or a": lambda: structir.infer(3),
    "structir.save: expected a module or a function,": lambda: structir.save(3, "module.sir"),
    "structir.interpret: expected a module or a": lambda: structir.interpret(3, "main"),
    "the pass simplify: expected a module or a": lambda: passes.Simplify()(3),
    "structir.parse: expected a str, found bytes": lambda: structir.parse(b"main"),
    "unknown option 'round'; available: rounds": lambda: passes.Simplify(round=2),
    "simplify: rounds: expected an integer, found 'a'": lambda: passes.Simplify(rounds="a"),
    "unknown pass 'csee'; did you mean cse?": lambda: passes.find_pass("csee"),
    "no parameter `z` in the function; available: x, w": lambda: passes.Gradient(parameters="z")(
        PROGRAM
    ),
    "values: expected a dict, found 'main'": lambda: passes.BindParams("main", {}),
    "bind_params: file: cannot read 'none.npz'": lambda: passes.BindParams(file="none.npz")(
        PROGRAM
    ),
    "expected 'stable' or 'depth_first', found 'x'": lambda: passes.TopologicalSort("x"),
    "help: `passes.Normalise()(module)`": lambda: passes.Normalise(PROGRAM),
    "help: `passes.Sequential([passes.": lambda: passes.Sequential([passes.Normalise]),
    "help: `passes.PassContext([passes.": lambda: passes.PassContext(passes.Timing()),
    "no function `mian` in module; available": lambda: passes.DeadCodeElimination(["mian"])(
        PROGRAM
    ),
    "ops: no op nn.softmx; help: did you mean nn.softmax?": lambda: passes.Decompose("nn.softmx")(
        PROGRAM
    ),
    "expected one parameter, the program, found 2": lambda: structir.module_pass(lambda m, c: m),
    "unknown fact 'opt_level' of a pass": lambda: structir.function_pass(opt_level=0)(lambda f: f),
    "register_extern: expected a name": lambda: register_extern(print),
    'help: `sizes={"n": 128}` or `--sizes': lambda: plan(PROGRAM, workers=2),
    "no function `mian` in module; available: main": lambda: PROGRAM["mian"],
    "unknown backend 'gpu'; available: cpu": lambda: structir.compile(PROGRAM, target="gpu"),
    "unknown option 'threads'; available": lambda: structir.compile(PROGRAM, threads=3),
    "help: call it as `R.add(x, y)`": lambda: find_op("add")(X),
    "y: expected a tensor, found 'a'": lambda: find_op("add")(X, "a"),
    "R.sig: signature: expected a string, found 3": lambda: R.sig(3)(X),
    "unknown dtype 'flaot32'": lambda: TensorStructInfo((3,), "flaot32"),
    "negative size of an axis: expected at least 0, found -3": lambda: TensorStructInfo(
        (-3,), "float32"
    ),
    "expected a shape such as `(n, 4)`, found 3": lambda: TensorStructInfo(3, "float32"),
    "parameter: expected a Var with StructInfo,": lambda: in_a_function(param="x"),
    "expected an expression, found 'a'; help:": lambda: in_a_function(lambda b: b.emit("a")),
    "no function is open; help: `with": lambda: BlockBuilder().emit(X),
    "emit_func_output: the open function already has": lambda: in_a_function(output, output),
    "main has no result; help:": in_a_function,
    "StructInfo mismatch: expected R.Tensor((3,),": lambda: in_a_function(
        lambda b: b.match_cast(X, TensorStructInfo((3,), "float32"))
    ),
}


@pytest.mark.parametrize("words", IN_PYTHON)
def test_in_python(words: str) -> None:
    with pytest.raises(StructIRError) as caught:
        IN_PYTHON[words]()
    assert words in str(caught.value)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="did you mean gradient"):
        _ = passes.Gradiant
    with pytest.raises(AttributeError, match=r"unknown op `R\.nn\.reluu`"):
        _ = R.nn.reluu
    for program in (PROGRAM, PROGRAM["main"], KERNEL):
        with pytest.raises(TypeError, match=r"structir\.compile\(program\)"):
            program(np.ones(3))
    with pytest.raises(TypeError, match=r"call it as `R\.Shape\(values, ndim=\.\.\.\)`"):
        R.Shape(foo=1)


OF_TVM = {
    'structir.compile(module)["main"](x)': lambda: structir.VirtualMachine,
    "passes.Lower()": lambda: passes.FuseOps,
    "@structir.rewrite": lambda: importlib.import_module("structir.rewriting").is_op,
    "print(module)": lambda: PROGRAM.show,
    'module["main"]': lambda: PROGRAM.main,
    "expr.struct_info": lambda: PROGRAM["main"].params[0].ty,
    "info.ndim": lambda: PROGRAM["main"].params[0].struct_info.rank,
    "builder.normalise(expr)": lambda: BlockBuilder().normalize,
}


@pytest.mark.parametrize("edit", OF_TVM)
def test_names_of_other_compilers(edit: str) -> None:
    with pytest.raises(AttributeError, match=r"; help: ") as caught:
        OF_TVM[edit]()
    assert f"`{edit}" in str(caught.value)


def test_imports_of_names_of_other_compilers() -> None:
    with pytest.raises(ImportError, match=r"help: .*`@structir\.rewrite`"):
        exec("from structir.rewriting import wildcard")
    with pytest.raises(ImportError, match=r"help: `from structir\.script import I, R, T`"):
        exec("from structir.script import relax")
    assert not hasattr(structir, "relax")
    assert passes.EliminateCommonSubexpr().name == "common_subexpression_elimination"


def test_missing_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FileNotFoundError, match=r"none\.sir"):
        structir.load(tmp_path / "none.sir")
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*none"):
        structir.save(PROGRAM, tmp_path / "none" / "module.sir")
    assert not list(tmp_path.iterdir())


A, B = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
CALLS = {
    "main: expected 2 arguments, found 1": (A,),
    "main: expected 2 arguments, found 3": (A, B, B),
    "parameter x: expected dtype float32, found float64": (A.astype(np.float64), B),
    "parameter x: expected 2 axes, found 1: shape (4,)": (A[0], B),
    "parameter w: axis 0: expected 4, found 3": (A, B.T),
    "parameter x: expected a tensor, found str 'abc'": ("abc", B),
    "parameter x: expected a tensor, found None": (None, B),
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


WRONG_NAMES: Any = [
    ((A,), {"v": B}, "unexpected keyword argument `v`: expected one of x, w\n.*`main.x, w.`"),
    ((A,), {"ww": B}, "unexpected keyword argument `ww`: .*\n.*did you mean `w`"),
    ((A, B), {"w": B}, "parameter `w`: expected one argument, found two\n.*remove `w=...`"),
    ((), {"w": B}, "expected 2 arguments, found 1: missing `x`\n.*`main.x, w.`"),
]


def test_arguments_by_name_are_the_same_however_a_function_runs() -> None:
    text = PROGRAM.script()
    rows = HEAD.replace('("n", 4)', '("*n", 4)') + "    return R.matmul(x, w)\n"
    impure = HEAD.replace("@R.function", "@R.function(pure=False)")
    host = impure + '    return R.call_packed("none", x, w, sinfo_args=R.Object)\n'
    register_extern("none", lambda x, w: x @ w)
    functions = [structir.compile(structir.parse(form))["main"] for form in (text, rows, host)]
    functions += [partial(structir.interpret, structir.parse(host), "main")]
    functions += [structir.compile(PROGRAM), structir.compile(PROGRAM, eager_first=True)]
    functions += [partial(structir.interpret, PROGRAM, "main"), shard(PROGRAM, grid=(2, 1))]
    for function in functions:
        expected = function(A, B)
        for args, names in (((A,), {"w": B}), ((), {"x": A, "w": B}), ((), {"w": B, "x": A})):
            assert np.array_equal(function(*args, **names), expected)
        for args, names, message in WRONG_NAMES:
            with pytest.raises(DiagnosticError, match=rf"\[E0704\]: main: {message}"):
                function(*args, **names)
    for function in (*functions[1:4], *functions[6:]):
        with pytest.raises(StructIRError, match="main: unexpected keyword argument `out`"):
            function(A, B, out=A)
    with pytest.raises(ShapeMismatchError, match="out: expected an array, or one for each"):
        functions[0](A, B, out=3)
    with pytest.raises(StructIRError, match="num_threads must be a positive integer, found 'two'"):
        structir.compile(PROGRAM, num_threads="two")


def test_an_executable_calls_its_only_public_function() -> None:
    several = structir.parse("""
@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: R.Tensor(("n",), "float32")):
        return R.exp(x)
    @R.function
    def first(x: R.Tensor(("n",), "float32")):
        return Module.helper(x)
    @R.function
    def second(out: R.Tensor(("n",), "float32"), name: R.Tensor(("n",), "float32")):
        return R.add(out, name)
""")
    x = np.ones(3, np.float32)
    one = several.with_functions({n: several[n] for n in ("helper", "first")})
    for exe in (structir.compile(one), structir.compile(one, eager_first=True)):
        assert np.allclose(exe(x=x), np.e)
    exe = structir.compile(several)
    assert np.array_equal(exe["second"](name=x, out=x), exe["second"](x, x))
    message = 'expected one public function, found first, second\n.*`exe\\["first"\\]'
    for module in (exe, structir.compile(several, eager_first=True)):
        with pytest.raises(DiagnosticError, match=message):
            module(x)
