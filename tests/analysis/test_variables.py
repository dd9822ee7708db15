"""Tests of free, bound and used variables and symbolic dims."""

import structir
from structir.analysis import (
    all_vars,
    bound_vars,
    defined_symbolic_vars,
    free_symbolic_vars,
    free_vars,
    is_pure,
    symbolic_vars,
    uses_of,
)
from structir.ir import Function, TensorStructInfo, Var
from structir.ir.dims import sym
from tests.analysis.infos import function, tensor

TEXT = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), flag: R.Tensor((), "bool")):
    n = T.int64()
    m = T.int64()
    k = T.int64()
    s = R.call_pure_packed("shape", x, sinfo_args=R.Shape(ndim=1))
    a = R.call_pure_packed("fill", x, sinfo_args=R.Tensor(s, "float32"))
    b = R.match_cast(a, R.Tensor((k,), "float32"))
    @R.function
    def inner(y: R.Tensor(("j",), "float32")):
        c = R.add(y, y)
        d = R.add(b, b)
        return (c, d)
    if flag:
        e = R.exp(b)
        r = R.log(e)
    else:
        r = b
    return (r, inner)
"""
MAIN = structir.parse(TEXT)["main"]


def names(items: object) -> list[str]:
    return [getattr(item, "name", str(item)) for item in items]  # type: ignore[attr-defined]


def test_variables_in_struct_info_are_included() -> None:
    found = names(all_vars(MAIN))
    assert sorted(set(found)) == sorted(["x", "flag", *"sabcdery", "inner"])
    info = TensorStructInfo(MAIN.bindings()[0].var, "float32")
    assert names(all_vars(info)) == ["s"]


def test_a_whole_function_has_no_free_variables() -> None:
    assert free_vars(MAIN) == []
    assert set(bound_vars(MAIN)) == set(all_vars(MAIN))


def test_a_closure_leaves_free_what_it_reads_from_around() -> None:
    inner = next(b.value for b in MAIN.bindings() if isinstance(b.value, Function))
    # `b` by its name, and what its StructInfo goes back to does not count: it says k
    assert names(free_vars(inner)) == ["b"]
    assert names(bound_vars(inner)) == ["y", "c", "d"]
    assert names(defined_symbolic_vars(inner)) == ["j"]
    assert names(free_symbolic_vars(inner)) == ["k"]


def test_symbolic_dims() -> None:
    assert sorted(names(symbolic_vars(MAIN))) == ["j", "k", "m", "n"]
    assert sorted(names(defined_symbolic_vars(MAIN))) == ["j", "k", "m", "n"]
    assert free_symbolic_vars(MAIN) == []


def test_the_dims_of_a_callable_are_its_own() -> None:
    a, b = sym("a"), sym("b")
    info = function(tensor(a, 4), ret=tensor(a, b))
    assert names(symbolic_vars(info)) == ["a", "b"]
    assert names(free_symbolic_vars(info)) == ["b"]


def test_dims_convert_to_the_same_sympy_symbols() -> None:
    n = structir.SymVar("n")
    info = TensorStructInfo((n, n * 2), "float32")
    assert symbolic_vars(info) == [n]
    assert info.shape == (n, 2 * n)


def test_uses_count_struct_info() -> None:
    uses = {var.name: names(b.var for b in found) for var, found in uses_of(MAIN).items()}
    last = MAIN.bindings()[-1].var
    assert uses["s"] == ["a", "b"]  # its StructInfo is that of `a`, which `b` reads
    assert uses["b"] == ["inner", "r"]
    assert uses_of(MAIN)[last] == []


def test_purity_includes_branches_but_not_closures() -> None:
    head = '@R.function(pure=False)\ndef main(x: R.Tensor(("n",), "float32"), f: R.Prim("bool")):\n'
    effect = "R.call_packed('print', x, sinfo_args=R.Tuple())"
    branch = f"    if f:\n        r = {effect}\n    else:\n        r = x\n    return r\n"
    closure = "    @R.function(pure=False)\n    def g(y: R.Object):\n"
    closure += f"        z = {effect}\n        return z\n"
    assert not is_pure(structir.parse(head + branch)["main"])
    assert is_pure(structir.parse(head + closure + "    return x\n")["main"])
    assert not is_pure(structir.parse(head + closure + "    z = g(x)\n    return z\n")["main"])
    assert is_pure(MAIN)


def test_a_variable_is_free_alone() -> None:
    x = Var("x", tensor(sym("n")))
    assert free_vars(x) == [x]
    assert bound_vars(x) == []
