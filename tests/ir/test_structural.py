"""Structural equality up to renaming, and its hash."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.errors import DiagnosticError
from structir.ir import (
    Call,
    Constant,
    DataflowVar,
    ExternFunc,
    FuncStructInfo,
    Function,
    IRModule,
    ObjectStructInfo,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    replace,
    structural_equal,
    structural_hash,
)
from structir.ir.dims import sym
from structir.ir.expr import BindingBlock, DataflowBlock, VarBinding
from structir.ir.node import Node

BODY = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32")):
    n = T.int64()
    m = T.int64()
    k = T.int64()
    with R.dataflow():
        a = R.add(x, y)
        b = R.multiply(a, R.const(2.0, "float32"))
        R.output(b)
    o = R.call_pure_packed("nonzero", b, sinfo_args=R.Tensor)
    c = R.match_cast(o, R.Tensor((2, k), "int64"))
    s = R.shape([n, m + 1])
    if flag:
        r = R.exp(b)
    else:
        r = b
    return (r, c, s)
""".replace("def main(", "def main(flag: R.Tensor((), 'bool'), ")


def renamed(text: str) -> str:
    """Returns the program with variables and dims renamed."""
    names = {"x": "first", "y": "second", "a": "p", "b": "q", "c": "t", "s": "u", "r": "out"}
    names |= {"n": "rows", "m": "columns", "k": "found", "flag": "choice"}
    words = structir_words(text)
    return "".join(names.get(word, word) for word in words)


def structir_words(text: str) -> list[str]:
    words, word = [], ""
    for letter in text:
        if letter.isalnum() or letter in "_.":
            word += letter
            continue
        words += [word, letter]
        word = ""
    return [*words, word]


def test_names_do_not_matter() -> None:
    one, other = structir.parse(BODY), structir.parse(renamed(BODY))
    assert "columns" in other.script()
    assert structural_equal(one, other)
    assert structural_hash(one) == structural_hash(other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("R.add(x, y)", "R.subtract(x, y)"),
        ("R.add(x, y)", "R.add(x, x)"),
        ('"m"), "float32"), y', '"n"), "float32"), y'),
        ("2.0", "2.5"),
        ("R.exp(b)", "b"),
        ("return (r, c, s)", "return (c, r, s)"),
        ("return (r, c, s)", "return (r, c)"),
        ("m + 1", "m + 2"),
        (
            "    with R.dataflow():\n        a = R.add(x, y)",
            "    with R.dataflow():\n        a = R.add(y, x)",
        ),
        ("R.Tensor((2, k)", "R.Tensor((2, m)"),
        ('"nonzero"', '"zero"'),
    ],
)
def test_what_a_program_says_does(old: str, new: str) -> None:
    assert old in BODY
    one, other = structir.parse(BODY), structir.parse(BODY.replace(old, new))
    assert not structural_equal(one, other)
    assert structural_hash(one) != structural_hash(other)


def lone(
    body: Node, params: tuple[Var, ...] = (), kind: type[BindingBlock] = BindingBlock
) -> Function:
    """Returns a function of one binding."""
    var = Var("v", ObjectStructInfo())
    return Function(params, SeqExpr((kind((VarBinding(var, body),)),), var), ObjectStructInfo())


def test_functions_of_a_module_may_share_dims() -> None:
    """A dim is local to its function, even if two functions share the object."""
    n, m = sym("n"), sym("m")

    def identity(dim: object) -> Function:
        x = Var("x", TensorStructInfo((dim,), "float32"))
        return Function((x,), SeqExpr((), x), x.struct_info)

    shared = IRModule({"f": identity(n), "g": identity(n)})
    apart = IRModule({"f": identity(n), "g": identity(m)})
    assert structural_equal(shared, apart)
    assert structural_hash(shared) == structural_hash(apart)


def test_callables_may_share_dims() -> None:
    def taking(a: object, b: object) -> Function:
        tensor = lambda d: TensorStructInfo((d,), "float32")  # noqa: E731
        f = Var("f", FuncStructInfo((tensor(a),), tensor(a)))
        g = Var("g", FuncStructInfo((tensor(b),), tensor(b)))
        return Function((f, g), SeqExpr((), Tuple((f, g))), ObjectStructInfo())

    n, m = sym("n"), sym("m")
    assert structural_equal(taking(n, n), taking(n, m))


def test_callables_are_distinguished_by_the_dims_they_share() -> None:
    n, m = sym("n"), sym("m")
    tensor = lambda *d: TensorStructInfo(d, "float32")  # noqa: E731
    square = FuncStructInfo((tensor(n, n),), tensor(n))
    matrix = FuncStructInfo((tensor(n, m),), tensor(n))
    assert not structural_equal(square, matrix)


def test_the_order_in_which_dims_were_made_does_not_matter() -> None:
    a, b = sym("a"), sym("b")
    d, c = sym("d"), sym("c")

    def product(first: object, second: object, alone: object) -> Function:
        infos = [(first * second + alone,), (first,), (second,)]
        params = tuple(Var("x", TensorStructInfo(dims, "float32")) for dims in infos)
        return Function(params, SeqExpr((), params[0]), params[0].struct_info)

    assert structural_equal(product(a, b, b), product(c, d, d))
    assert not structural_equal(product(a, b, b), product(c, d, c))


def test_the_order_of_functions_does_not_matter_but_their_names_do() -> None:
    f, g = lone(PrimValue(1)), lone(PrimValue(2))
    assert structural_equal(IRModule({"f": f, "g": g}), IRModule({"g": g, "f": f}))
    assert not structural_equal(IRModule({"f": f, "g": g}), IRModule({"f": g, "g": f}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PrimValue(True), PrimValue(1)),
        (PrimValue(1.0), PrimValue(1)),
        (ShapeExpr((1, 2)), Tuple((PrimValue(1), PrimValue(2)))),
        (Tuple((PrimValue(1), PrimValue(2))), Tuple((Tuple((PrimValue(1),)), PrimValue(2)))),
        (Constant(np.zeros(2, "float32")), Constant(np.zeros(2, "int32"))),
        (Constant(np.zeros((1, 4), "float32")), Constant(np.zeros((4, 1), "float32"))),
        (Constant(np.float32(0.0) * np.ones(1)), Constant(np.float32(-0.0) * np.ones(1))),
        (TupleGetItem(Tuple(()), 0), TupleGetItem(Tuple(()), 1)),
        (
            Call(ExternFunc("f"), (), {"a": 1}),
            Call(ExternFunc("f"), (), {"b": 1}),
        ),
        (
            Call(ExternFunc("f"), (), sinfo_args=(TensorStructInfo((2,), "float32"),)),
            Call(ExternFunc("f"), (), sinfo_args=(TensorStructInfo((3,), "float32"),)),
        ),
        (Call(ExternFunc("f"), ()), Call(ExternFunc("g"), ())),
    ],
)
def test_values_that_differ(one: Node, other: Node) -> None:
    assert not structural_equal(lone(one), lone(other))


def test_nan_equals_itself() -> None:
    one, other = (lone(Constant(np.array([np.nan], "float32"))) for _ in range(2))
    assert structural_equal(one, other)


def test_kinds_of_block_and_of_variable_matter() -> None:
    plain, dataflow = lone(PrimValue(1)), lone(PrimValue(1), kind=DataflowBlock)
    assert not structural_equal(plain, dataflow)
    inner = DataflowVar("v", ObjectStructInfo())
    block = DataflowBlock((VarBinding(inner, PrimValue(1)),))
    assert not structural_equal(
        dataflow, Function((), SeqExpr((block,), inner), ObjectStructInfo())
    )


def test_the_inferred_struct_info_of_a_call_is_ignored() -> None:
    """Source has the StructInfo of the variable, so that of the call is not compared."""
    call = Call(ExternFunc("f"), (), struct_info=ObjectStructInfo())
    assert structural_equal(lone(call), lone(replace(call, struct_info=TensorStructInfo((2,)))))


def test_purity_attributes_and_results_matter() -> None:
    function = lone(PrimValue(1))
    assert not structural_equal(function, replace(function, is_pure=False))
    assert not structural_equal(function, replace(function, attrs={"a": 1}))
    assert not structural_equal(function, replace(function, ret_struct_info=TensorStructInfo()))
    module = IRModule({"f": function})
    assert not structural_equal(module, IRModule({"f": function}, {"a": 1}))


@given(st.permutations(range(4)))
def test_which_variable_is_read_matters(order: list[int]) -> None:
    params = tuple(Var("x", ObjectStructInfo()) for _ in range(4))
    same = lone(Tuple(tuple(params[i] for i in range(4))), params)
    mixed = lone(Tuple(tuple(params[i] for i in order)), params)
    assert structural_equal(same, mixed) == (order == sorted(order))


@pytest.mark.parametrize("name", ["", "1st", "a-b", "main 2", "def"])
def test_a_function_of_a_module_has_a_name_that_text_can_say(name):
    with pytest.raises(DiagnosticError, match=f"invalid function name '{name}': expected a Python"):
        IRModule({name: structir.parse(BODY)["main"]})
