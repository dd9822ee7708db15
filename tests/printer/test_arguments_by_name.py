"""Calls by the names of parameters, and defaults of parameters, in programs and from Python."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import structir
from structir import passes
from structir.distributed import shard
from structir.errors import DiagnosticError, StructIRError
from structir.ir import BlockBuilder, Function, Var
from structir.ir.struct_info import TensorStructInfo
from structir.script import I, R

TABLE = np.arange(24, dtype=np.float32)  # too large to be printed inline
HALF = 0.5

PROGRAM = structir.parse(
    """
@I.ir_module
class Module:
    @R.function(private=True)
    def affine(
        x: R.Tensor(("n",), "float32"),
        scale: R.Tensor((), "float32") = 2.0,
        shift: R.Tensor((), "float32") = R.const(1.0, "float32"),
    ):
        return R.add(R.multiply(x, scale), shift)

    @R.function
    def main(
        x: R.Tensor(("n",), "float32"),
        y: R.Tensor(("n",), "float32"),
        table: R.Tensor((24,), "float32") = TABLE,
    ):
        @R.function
        def local(a: R.Tensor(("n",), "float32"), b: R.Tensor(("n",), "float32")):
            return R.subtract(a, b)

        a = Module.affine(shift=R.sum(table), x=x)
        b = Module.affine(y)
        c = Module.affine(y, scale=R.const(HALF, "float32"))
        return local(b=a, a=R.add(b, c))
""",
    constants={"TABLE": TABLE, "HALF": HALF},
)
X, Y = np.array([1, 2, 3], np.float32), np.array([4, 5, 7], np.float32)


def expected(x: Any, y: Any, table: Any = TABLE) -> Any:
    return (2 * y + 1) + (0.5 * y + 1) - (2 * x + table.sum())


def test_calls_by_name_and_defaults_give_the_values_of_calls_by_position() -> None:
    for run in callables(PROGRAM):
        assert np.allclose(run(X, Y), expected(X, Y))
        assert np.allclose(run(y=Y, x=X), expected(X, Y))
        assert np.allclose(run(X, table=TABLE[::-1] + 1, y=Y), expected(X, Y, TABLE + 1))
        assert np.allclose(run(X, Y, TABLE + 1), expected(X, Y, TABLE + 1))
        with pytest.raises(DiagnosticError, match="expected 3 arguments, found 1: missing `x`"):
            run(y=Y)
        with pytest.raises(DiagnosticError, match="expected 3 arguments, found 1\n"):
            run(X)


def callables(module: Any) -> list[Any]:
    exe = structir.compile(module)
    whole = structir.compile(passes.InlineFunctions()(module))
    eager = structir.compile(module, eager_first=True)
    interpreted = partial(structir.interpret, module, "main")
    return [exe["main"], exe, whole["main"], eager["main"], interpreted]


def test_defaults_survive_printing_parsing_saving_and_passes(tmp_path: Path) -> None:
    text = PROGRAM.script()
    assert 'scale: R.Tensor((), dtype="float32") = R.const(2.0, "float32")' in text
    again = structir.parse(text)
    assert again.script() == text
    assert structir.structural_equal(again, PROGRAM)
    other = text.replace("R.const(2.0", "R.const(3.0")
    assert not structir.structural_equal(structir.parse(other), PROGRAM)
    structir.save(PROGRAM, tmp_path / "program")
    structir.compile(PROGRAM).save(tmp_path / "compiled")
    for path in ("program", "compiled"):
        loaded = structir.load(tmp_path / path)
        run = loaded if path == "compiled" else structir.compile(loaded)
        assert np.allclose(run["main"](X, y=Y), expected(X, Y))
    for name in ("DeadCodeElimination", "Normalise", "FoldConstant", "InlineFunctions"):
        main = getattr(passes, name)()(PROGRAM)["main"]
        assert list(main.attrs["defaults"]) == ["table"]


def test_only_the_last_parameters_keep_defaults_when_passes_change_them() -> None:
    main = PROGRAM["main"]
    x, y, table = main.params
    shorter = Function((x, table), main.body, main.ret_struct_info, True, main.attrs)
    longer = Function((x, table, y), main.body, main.ret_struct_info, True, main.attrs)
    assert list(shorter.attrs["defaults"]) == ["table"]
    assert "defaults" not in longer.attrs


DEFAULTS = (  # the annotation of a parameter, its default, the argument that it stands for
    ('R.Prim("int64")', "3", 3),
    ('R.Prim("bool")', "True", True),
    ('R.Prim("float32")', "-0.5", -0.5),
    ("R.Shape([2, 3])", "(2, 3)", (2, 3)),
    ('R.Tensor((2,), "int32")', 'R.const([1, 2], "int32")', np.array([1, 2], np.int32)),
    ('R.Tensor((), "bfloat16")', "1", None),
    (
        'R.Tuple(R.Tensor((), "float32"), R.Prim("int64"))',
        '(R.const(1.0, "float32"), 2)',
        (np.float32(1), 2),
    ),
)


@pytest.mark.parametrize(("annotation", "default", "value"), DEFAULTS)
def test_defaults_of_every_kind_of_parameter(annotation: str, default: str, value: Any) -> None:
    program = structir.parse(
        f"@R.function\ndef main(x: R.Tensor((3,)), p: {annotation} = {default}):\n    return (x, p)"
    )
    again = structir.parse(program.script())
    assert structir.structural_equal(again, program)
    for run in (structir.compile(again)["main"], partial(structir.interpret, again, "main")):
        result = run(X)[1]
        if value is not None:
            same(result, value)


def same(result: Any, value: Any) -> None:
    if isinstance(value, tuple):
        assert len(result) == len(value)
        for item, other in zip(result, value, strict=True):
            same(item, other)
    else:
        assert np.array_equal(result, value)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ('p: R.Tensor((2,), "float32") = R.const([1.0], "float32")', "found R.const"),
        ('p: R.Tensor((), "int32") = 2.5', "found 2.5"),
        ('p: R.Tensor((), "int8") = 300', "found 300"),
        ('p: R.Tensor((3,), "float32") = x', "found x"),
        ('p: R.Tensor((3,), "float32") = R.exp(x)', "found R.exp"),
        ('p: R.Prim("int64") = n', "found n"),
    ],
)
def test_a_default_that_is_no_constant_of_the_parameter_is_an_error(
    parameter: str, message: str
) -> None:
    text = f'@R.function\ndef main(x: R.Tensor(("n",), "float32"), {parameter}):\n    return x'
    with pytest.raises(DiagnosticError, match=f"default of `p`: expected a constant.*{message}"):
        structir.parse(text)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("f(x, t=y)", "f: unexpected keyword argument `t`: expected one of x, scale"),
        ("f(x, scal=y)", "did you mean `scale`"),
        ("f(x, x=y)", "f: parameter `x`: expected one argument, found two"),
        ("f(scale=x)", "f: expected 2 arguments, found 1: missing `x`"),
        ("f(x, **y)", "write the arguments one by one"),
        ("g(x=x)", "the names of the parameters of a function value are unknown"),
    ],
)
def test_wrong_calls_by_name_in_programs_are_located(call: str, message: str) -> None:
    text = f"""
@R.function
def f(x: R.Tensor((3,), "float32"), scale: R.Tensor((3,), "float32")):
    return R.multiply(x, scale)

@R.function
def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
    g = f
    return {call}
"""
    with pytest.raises(DiagnosticError, match=message) as caught:
        structir.parse(text)
    assert caught.value.diagnostics[0].span.line == 9  # type: ignore[union-attr]


@I.ir_module
class Decorated:
    @R.function
    def scaled(x: R.Tensor((3,), "float32"), s: R.Tensor((), "float32") = HALF):
        return R.multiply(x, s)

    @R.function
    def main(x: R.Tensor((3,), "float32")):
        cls = Decorated
        return cls.scaled(s=R.const(3.0, "float32"), x=cls.scaled(x))


def test_decorated_programs_have_defaults() -> None:
    assert np.allclose(structir.compile(Decorated)["scaled"](X), X / 2)
    assert np.allclose(structir.interpret(Decorated, "main", x=X), X * 1.5)


def test_functions_of_any_rank_and_sharded_functions_take_names_and_defaults() -> None:
    program = structir.parse("""
@R.function
def main(x: R.Tensor(("*s", 3), "float32"), s: R.Tensor((), "float32") = 2.0):
    return R.multiply(x, s)
""")
    for run in (structir.compile(program), structir.compile(program)["main"]):
        assert np.array_equal(run(X), 2 * X)
        assert np.array_equal(run(s=np.float32(3), x=X[None]), 3 * X[None])
    sharded = shard(Decorated, "scaled", grid=(3,))
    assert np.array_equal(sharded(X), X / 2)
    assert np.array_equal(sharded(s=np.float32(3), x=X), 3 * X)


class Layer(NamedTuple):
    weight: Any
    rest: Any


def test_tuple_parameters_take_nested_lists_and_named_tuples() -> None:
    program = structir.parse("""
@R.function
def main(
    x: R.Tensor(("n",), "float32"),
    p: R.Tuple(
        R.Tensor(("n",), "float32"), R.Tuple(R.Tensor((), "float32"), R.Tensor(("n",), "float32"))
    ),
):
    return R.add(R.multiply(R.add(x, p[0]), p[1][0]), p[1][1])
""")
    trees: Any = ((X, (X[0], Y)), [X, [1.0, Y]], Layer(X, Layer(1, Y)), [[1, 2, 3], Layer(X[0], Y)])
    for run in (*callables(program), shard(program, grid=(3,))):
        for tree in trees:
            assert np.allclose(run(X, p=tree), 2 * X + Y)
        with pytest.raises(StructIRError, match=r"p: expected a tuple.*, found dict"):
            run(X, {"weight": X, "rest": (X[0], Y)})
    with pytest.raises(StructIRError, match=r"p\[0\]: expected .*, found str 'a'"):
        shard(program)(X, ("a", (X[0], Y)))


def test_the_builder_sets_defaults() -> None:
    x = Var("x", TensorStructInfo((3,), "float32"))
    s = Var("s", TensorStructInfo((), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, s], attrs={"defaults": {"s": R.const(2.0)}}):
        builder.emit_func_output(R.multiply(x, s))
    module = builder.get()
    assert np.array_equal(structir.compile(module)(X), 2 * X)
    assert structir.structural_equal(structir.parse(module.script()), module)
    with pytest.raises(DiagnosticError, match="defaults: expected constants by parameter"):
        Function((x,), module["main"].body, x.struct_info, True, {"defaults": {"x": 3}})
