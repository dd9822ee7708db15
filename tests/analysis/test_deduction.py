"""Tests of deduction of expressions other than op calls, annotations, and erasure at scope ends."""

import warnings

import pytest

import structir
from structir.analysis import binding_struct_infos
from structir.analysis.deduction import deduce
from structir.errors import DiagnosticError, DiagnosticWarning, StructInfoError
from structir.ir import (
    Call,
    FuncStructInfo,
    IRModule,
    ObjectStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    derive_func,
)
from structir.ir.dims import sym
from tests.analysis.infos import K, M, N, function, tensor

OBJECT = ObjectStructInfo()
HEAD = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), flag: R.Tensor((), "bool")):
    n = T.int64()
    m = T.int64()
    k = T.int64()
"""


def infos(body: str, head: str = HEAD) -> dict[str, str]:
    """Returns the StructInfo of every binding, and of the result, as text."""
    main = structir.parse(head + body)["main"]
    found = {name: str(info) for name, info in binding_struct_infos(main).items()}
    return found | {"ret": str(main.ret_struct_info)}


# ---- tuples


def test_tuples_and_their_fields() -> None:
    found = infos("    t = (x, (x, R.shape([n, 2])))\n    a = t[1]\n    b = a[1]\n    return b\n")
    assert found["a"] == 'R.Tuple(R.Tensor((n, m), dtype="float32"), R.Shape([n, 2]))'
    assert found["b"] == found["ret"] == "R.Shape([n, 2])"


def test_a_field_of_an_object_is_an_object() -> None:
    assert deduce(TupleGetItem(Var("t", OBJECT), 3)) == OBJECT


@pytest.mark.parametrize(
    ("info", "index"),
    [(tensor(N), 0), (Tuple((Var("x", tensor(N)),)).struct_info, 1), (ShapeStructInfo((N,)), 0)],
)
def test_tuple_index_out_of_range(info: StructInfo, index: int) -> None:
    with pytest.raises(StructInfoError, match=r"field|tuple"):
        deduce(TupleGetItem(Var("t", info), index))


# ---- branches


def test_conditional_joins_its_branches() -> None:
    body = (
        "    if flag:\n        a = R.match_cast(x, R.Tensor((n, k), 'float32'))\n"
        "        r = R.exp(a)\n"
        "    else:\n        r = R.exp(x)\n    return r\n"
    )
    found = infos(body)
    assert found["r.then.r"] == 'R.Tensor((n, k), dtype="float32")'
    assert found["r.else.r"] == 'R.Tensor((n, m), dtype="float32")'
    assert found["r"] == found["ret"] == 'R.Tensor(dtype="float32", ndim=2)'


def test_conditional_of_equal_struct_infos_preserves_it() -> None:
    body = "    if flag:\n        r = R.exp(x)\n    else:\n        r = x\n    return r\n"
    assert infos(body)["r"] == 'R.Tensor((n, m), dtype="float32")'


def test_a_shape_variable_does_not_leave_its_branch() -> None:
    side = (
        "        s = R.call_pure_packed('f', x, sinfo_args=R.Shape(ndim=2))\n"
        "        r = R.call_pure_packed('g', x, sinfo_args=R.Tensor(s, 'float32'))\n"
    )
    body = f"    if flag:\n{side}    else:\n{side}    return r\n"
    assert infos(body)["r"] == 'R.Tensor(dtype="float32", ndim=2)'


# ---- calls


def test_a_call_of_a_function_value() -> None:
    head = HEAD.replace(
        "flag: ", 'f: R.Callable((R.Tensor(("a",)),), R.Tensor(("a + 1",))), flag: '
    )
    found = infos("    y = R.zeros((k,), 'float32')\n    return y\n".replace("k", "n"), head)
    assert found["y"] == 'R.Tensor((n,), dtype="float32")'
    found = infos("    y = R.zeros((n,), 'float32')\n    z = f(y)\n    return z\n", head)
    assert found["z"] == "R.Tensor((n + 1,))"


def test_invalid_call_reports_its_arguments() -> None:
    callee = Var("f", function(tensor(N, M), ret=tensor(N)))
    with pytest.raises(StructInfoError) as caught:
        deduce(Call(callee, (Var("y", tensor(K)),)))
    message = str(caught.value)
    for part in ("f: argument 0: expected", 'y: R.Tensor((k,), dtype="float32")', "help: "):
        assert part in message


def test_arguments_with_contradicting_sizes_are_rejected() -> None:
    with pytest.raises(DiagnosticError, match="argument 1: expected"):
        structir.parse(
            """
@I.ir_module
class Module:
    @R.function
    def same(a: R.Tensor(("n",), "float32"), b: R.Tensor(("n",), "float32")):
        return b

    @R.function
    def main(x: R.Tensor(("k + 1",), "float32"), y: R.Tensor(("k",), "float32")):
        cls = Module
        z = cls.same(x, y)
        return z
"""
        )


def test_a_closure_is_called_at_the_sizes_of_the_scope_around_it() -> None:
    with pytest.raises(DiagnosticError, match="argument 0: expected"):
        structir.parse(
            """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    @R.function
    def closure(p: R.Tensor(("n + 1",), "float32")):
        return x
    y = closure(x)
    return y
"""
        )


def test_only_a_function_can_be_called() -> None:
    with pytest.raises(StructInfoError, match="y is not callable"):
        deduce(Call(Var("y", tensor(K)), ()))
    assert deduce(Call(Var("y", OBJECT), ())) == OBJECT


def test_opaque_function_has_its_declared_result() -> None:
    assert deduce(Call(Var("f", FuncStructInfo(None, tensor(N))), ())) == tensor(N)


@derive_func
def like_the_first(call: Call) -> StructInfo:
    """Returns the StructInfo of the first argument."""
    info: StructInfo = call.args[0].struct_info
    return info


def test_derive_func_receives_the_call() -> None:
    callee = Var("f", FuncStructInfo(None, OBJECT, True, "like_the_first"))
    assert deduce(Call(callee, (Var("y", tensor(K, 4)),))) == tensor(K, 4)


def test_recursive_functions_need_an_annotation() -> None:
    text = """
@I.ir_module
class Module:
    @R.function
    def known(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        y = Module.known(x)
        return y

    @R.function
    def unknown(x: R.Tensor(("n",), "float32")):
        y = Module.unknown(x)
        return y
"""
    module = structir.parse(text)
    assert binding_struct_infos(module["known"])["y"] == module["known"].params[0].struct_info
    assert binding_struct_infos(module["unknown"])["y"] == OBJECT


# ---- functions


def test_result_type_erases_names_out_of_scope_of_callers() -> None:
    body = "    y = R.match_cast(x, R.Tensor((n, k), 'float32'))\n    return (x, y)\n"
    found = infos(body)
    assert found["y"] == 'R.Tensor((n, k), dtype="float32")'
    shapes = 'R.Tensor((n, m), dtype="float32"), R.Tensor(dtype="float32", ndim=2)'
    assert found["ret"] == f"R.Tuple({shapes})"


def test_a_closure_sees_the_dims_around_it() -> None:
    body = """    @R.function
    def inner(y: R.Tensor(("j",), "float32")):
        j = T.int64()
        z = R.zeros((j, n), "float32")
        return z
    w = R.zeros((m,), "float32")
    r = inner(w)
    return r
"""
    found = infos(body)
    assert found["inner.z"] == 'R.Tensor((j, n), dtype="float32")'
    assert found["r"] == 'R.Tensor((m, n), dtype="float32")'


# ---- annotations


def annotated(annotation: str) -> str:
    return infos(f"    y: {annotation} = R.exp(x)\n    return y\n")["y"]


@pytest.mark.parametrize(
    ("annotation", "kept"),
    [
        ("R.Object", "R.Object"),
        ('R.Tensor((n, m), "float32")', 'R.Tensor((n, m), dtype="float32")'),
        ("R.Tensor(ndim=2)", "R.Tensor(ndim=2)"),
        ("R.Tensor", "R.Tensor"),
    ],
)
def test_less_precise_annotation_is_used(annotation: str, kept: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert annotated(annotation) == kept


@pytest.mark.parametrize(
    "annotation", ['R.Tensor((n, 4), "float32")', 'R.Tensor((m, n), "float32")']
)
def test_undecidable_annotation_is_assumed_with_a_warning(annotation: str) -> None:
    with pytest.warns(DiagnosticWarning) as caught:
        found = annotated(annotation)
    assert found == annotation.replace('"float32"', 'dtype="float32"')
    message = str(caught[0].message)
    assert f"expected {found}" in message
    assert 'found R.Tensor((n, m), dtype="float32")' in message


@pytest.mark.parametrize(
    "annotation",
    [
        'R.Tensor((n, m + 1), "float32")',
        'R.Tensor((n,), "float32")',
        'R.Tensor((n, m), "int64")',
        "R.Shape([n, m])",
        "R.Tuple(R.Tensor)",
    ],
)
def test_an_annotation_that_contradicts_is_an_error(annotation: str) -> None:
    with pytest.raises(DiagnosticError, match=r"the annotation of y contradicts"):
        annotated(annotation)


def test_strict_checks_undecidable_annotations_at_run_time() -> None:
    body = "    y: R.Tensor((n, 4), 'float32') = R.exp(x)\n    return y\n"
    module: IRModule = structir.parse(HEAD + body, strict=True)
    assert "R.match_cast" in module.script()


def test_result_annotation_is_checked_against_the_body() -> None:
    head = HEAD.replace("):\n", ") -> R.Tensor(('n', 'n', 'n'), 'float32'):\n", 1)
    with pytest.raises(DiagnosticError, match="the result of main contradicts"):
        structir.parse(head + "    return x\n")


def test_parsing_preserves_imprecise_annotations() -> None:
    """Annotations that are less precise than deduction are preserved."""
    text = HEAD + "    y: R.Tensor(dtype='float32') = R.exp(x)\n    z = R.exp(y)\n    return z\n"
    module = structir.parse(text)
    again = structir.parse(module.script())
    assert [b.var.struct_info for b in again["main"].bindings()] == [
        TensorStructInfo(dtype="float32"),
        TensorStructInfo(dtype="float32"),
    ]


def test_binding_paths_include_their_scopes() -> None:
    body = """    @R.function
    def g(y: R.Object):
        b = (y, y)
        return b
    if flag:
        a = R.exp(x)
        r = R.log(a)
    else:
        r = R.sin(x)
    return r
"""
    keys = set(infos(body)) - {"ret"}
    assert keys == {"g", "g.b", "r", "r.then.a", "r.then.r", "r.else.r"}


def test_dims_of_two_functions_are_not_mixed_up() -> None:
    n, m = sym("n"), sym("n")
    callee = function(tensor(n, 4), ret=tensor(n))
    call = Call(Var("f", callee), (Var("y", tensor(m, 4)),))
    assert deduce(call) == tensor(m)
    assert deduce(call) != tensor(n)
