"""Tuples with named fields: text, access, arguments from dicts, and the passes that keep names."""

import random
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir
from structir import passes
from structir.analysis import PASS, base_check, unify_to_lca
from structir.distributed import shard
from structir.errors import DiagnosticError, DiagnosticWarning, StructIRError
from structir.ir import BlockBuilder, IRModule, Tuple, Var
from structir.ir.dims import sym
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from structir.script import R
from structir.tools.tvm_dialect import tvm_text

WORDS = ("w", "b", "T", "shape", "astype", "in", "lambda", "a.b", "0", "\u00e9", "\ufb01", '"\n')
PROGRAM = structir.parse("""
@I.ir_module
class Module:
    @R.function(private=True)
    def layer(x: R.Tensor(("n", 4), "float32"), p: R.Tuple(w=R.Tensor((4, 4), "float32"),
              b=R.Tensor((4,), "float32"))):
        return R.tuple(y=x @ p.w + p.b, b=p.b)

    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"),
        params: R.Tuple(
            layers=R.Tuple(
                R.Tuple(w=R.Tensor((4, 4), "float32"), b=R.Tensor((4,), "float32")),
                R.Tuple(w=R.Tensor((4, 4), "float32"), b=R.Tensor((4,), "float32")),
            ),
            **{"in": R.Tensor((4,), "float32")},
        ),
    ):
        for p in params.layers:
            x = cls.layer(x, p).y
        return R.tuple(y=x + params["in"] + params.layers[0].b, last=params.layers[-1]["b"])
""")


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


X = array(3, 4)
TREE = {
    "in": array(4),
    "layers": [{"b": array(4) + 1, "w": array(4, 4)}, {"w": array(4, 4) - 1, "b": array(4)}],
}


def expected() -> Any:
    x = X
    for layer in TREE["layers"]:
        x = x @ layer["w"] + layer["b"]
    return x + TREE["in"] + TREE["layers"][0]["b"]


def callables(module: IRModule) -> list[Any]:
    exe = structir.compile(module)
    whole = structir.compile(passes.InlineFunctions()(module))
    interpreted = partial(structir.interpret, module, "main")
    eager = structir.compile(module, eager_first=True)["main"]
    sharded = shard(module, "main", grid=(1, 1))
    return [exe["main"], exe, whole["main"], eager, interpreted, sharded]


# ---- text


def random_tree(rng: random.Random, depth: int = 3) -> StructInfo:
    if depth == 0 or rng.random() < 0.3:
        return TensorStructInfo((sym("n"), rng.randint(1, 3)), "float32")
    fields = tuple([random_tree(rng, depth - 1) for _ in range(rng.randint(0, 3))])
    names = rng.sample(WORDS, len(fields)) if rng.random() < 0.8 else None
    return TupleStructInfo(fields, names)


@pytest.mark.parametrize("seed", range(40))
def test_programs_over_trees_of_parameters_round_trip(seed: int) -> None:
    rng = random.Random(seed)
    param = Var("params", random_tree(rng))
    builder = BlockBuilder()
    with builder.function("main", [param]):
        value: Any = param
        leaves = [value]
        while isinstance(value.struct_info, TupleStructInfo) and value.struct_info.fields:
            info = value.struct_info
            key: Any = rng.randrange(len(info.fields))
            value = builder.emit(value[info.names[key] if info.names else key])
            leaves.append(value)
        builder.emit_func_output(dict(zip(WORDS, leaves, strict=False)))
    module = builder.get()
    text = str(module)
    again = structir.parse(text)
    assert str(again) == text
    assert structir.structural_equal(again, module)
    assert structir.structural_hash(again) == structir.structural_hash(module)


def test_each_way_to_select_a_field_is_the_same_program() -> None:
    head = "@R.function\ndef main(p: R.Tuple(w=R.Tensor((4,)), b=R.Tensor((4,)))):\n    return p"
    ways = [structir.parse(head + way) for way in (".b", '["b"]', "[1]", "[-1]")]
    assert {str(way) for way in ways} == {str(ways[0])}
    assert "p.b" in str(ways[0])


def test_names_are_part_of_the_structure() -> None:
    infos = (TensorStructInfo((4,)), TensorStructInfo((4,)))
    plain, named, other = (TupleStructInfo(infos, n) for n in (None, ["w", "b"], ("b", "w")))
    assert len({plain, named, other, TupleStructInfo(infos, ("w", "b"))}) == 3
    assert not structir.structural_equal(named, other)
    values = tuple([Var(name, info) for name, info in zip("xy", infos, strict=True)])
    assert not structir.structural_equal(Tuple(values, ("w", "b")), Tuple(values))
    assert Tuple((), ()).struct_info == TupleStructInfo(())
    assert R.Tuple(w=infos[0], b=R.Tensor((4,))) == named


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("p.wight", "`p` has no field `wight`: expected one of weight, bias", "write `p.weight`"),
        ("p['b']", "`p` has no field `b`: expected one of weight, bias", "write `p.weight`"),
        ("p.bias.w", "`p.bias` has no field `w`: its fields have no names", "`p.bias[0]`"),
        ("p.bias[0].w", "tensors have no attribute `w`|not part of the language", "op"),
        ("R.tuple(w=p, w=p)", "expected 2 different strings, one for each field", "once"),
        ("R.tuple(p, w=p)", "expected names for all fields or for none", "name every field"),
        ("R.tuple(**p)", "expected a dict with strings as keys, found p", "name"),
        ("R.Tuple(w=p)", "expected a value, found the StructInfo R.Tuple", "R.tuple"),
    ],
)
def test_a_wrong_field_is_one_error_with_the_names(value: str, message: str, hint: str) -> None:
    text = f"""@R.function
def main(p: R.Tuple(weight=R.Tensor((4,)), bias=R.Tuple(R.Tensor((4,))))):
    return {value}
"""
    with pytest.raises(DiagnosticError, match=message) as caught:
        structir.parse(text)
    assert len(caught.value.diagnostics) == 1
    assert hint in str(caught.value.diagnostics[0].hint)


def test_fields_of_an_invalid_value_are_not_reported_again() -> None:
    text = """@R.function
def main(x: R.Tensor((4,), "float32")):
    q = R.matmul(x, 3, 4)
    r = q.w + q["b"]
    return q.layers[0].w
"""
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(text)
    assert [d.op for d in caught.value.diagnostics] == ["matmul"]


@pytest.mark.parametrize("names", [("w",), ("w", "w"), ("w", 1), "abc"])
def test_names_that_do_not_match_the_fields_are_an_error(names: Any) -> None:
    with pytest.raises(DiagnosticError, match="expected 2 different strings"):
        TupleStructInfo((TensorStructInfo(), TensorStructInfo()), names)


def test_annotations_and_branches_name_fields() -> None:
    module = structir.parse("""@R.function
def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
    p: R.Tuple(a=R.Tensor, b=R.Tuple(c=R.Tensor)) = (x, (x,))
    if c:
        same = R.tuple(a=x, b=x)
    else:
        same = R.tuple(a=p.b.c, b=x)
    if c:
        other = R.tuple(a=x, b=x)
    else:
        other = R.tuple(b=x, a=x)
    return (p, same, other)
""")
    ret: Any = module["main"].ret_struct_info
    assert [info.names for info in ret.fields] == [("a", "b"), ("a", "b"), None]
    assert str(structir.parse(str(module))) == str(module)


# ---- the lattice


def random_named(rng: random.Random, depth: int = 2) -> TupleStructInfo:
    def field() -> StructInfo:
        return random_named(rng, depth - 1) if depth else TensorStructInfo()

    names = rng.choice([None, ("a", "b"), ("a", "b"), ("b", "a")])
    return TupleStructInfo((field(), field()), names)


def test_joins_of_named_tuples_obey_the_laws_exactly() -> None:
    rng = random.Random(1)
    for _ in range(300):
        a, b, c = (random_named(rng) for _ in range(3))
        join = unify_to_lca(a, b)
        assert join == unify_to_lca(b, a)
        assert unify_to_lca(join, c) == unify_to_lca(a, unify_to_lca(b, c))
        assert unify_to_lca(a, a) == a
        assert unify_to_lca(join, b) == join
        assert base_check(a, b) is base_check(join, a) is PASS


def test_functions_join_where_only_names_of_parameters_differ() -> None:
    infos = (TensorStructInfo((4,)), TensorStructInfo((4,)))
    one, other = (
        FuncStructInfo((TupleStructInfo(infos, names),), infos[0]) for names in ("ab", "ba")
    )
    assert unify_to_lca(one, other) == FuncStructInfo((TupleStructInfo(infos),), infos[0])


# ---- arguments


def test_dicts_are_arguments_of_parameters_with_named_fields() -> None:
    flat = ([(w["w"], w["b"]) for w in TREE["layers"]], TREE["in"])
    for run in callables(PROGRAM):
        for tree in (TREE, flat, {"in": TREE["in"], "layers": flat[0]}):
            result = run(X, tree)
            assert type(result) is tuple
            assert np.allclose(result[0], expected(), rtol=1e-5)
            assert not np.shares_memory(result[1], TREE["layers"][1]["b"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": 1}, "params: expected a dict with the keys layers, in, found one with unexpect"),
        ({"in": None}, "params: expected a dict with the keys layers, in, found one with missing"),
        ({"layers": ()}, r"params\.layers: expected a tuple of 2, found one of 0"),
        (
            {"layers": [{"w": X}] * 2},
            r"params\.layers\[0\]: .* keys w, b, found one with missing b",
        ),
        ({"in": array(5)}, r"params\.in: axis 0: expected 4, found 5"),
        ({"in": {"w": X}}, r"params\.in: expected a tensor, found dict"),
    ],
)
def test_a_dict_of_other_keys_is_one_error(change: Any, message: str) -> None:
    tree = {k: v for k, v in {**TREE, **change}.items() if v is not None}
    for run in callables(PROGRAM):
        with pytest.raises(StructIRError, match=message):
            run(X, tree)


# ---- passes and files


def test_names_survive_passes_printing_and_files(tmp_path: Path) -> None:
    params = PROGRAM["main"].params[1].struct_info
    for each in (*[p for p in passes.all_passes() if p.comparable], structir.infer):
        after = each(PROGRAM)
        main = after["main"] if "main" in after.functions else None
        if main is not None and len(main.params) == 2:
            assert main.params[1].struct_info == params, each
            assert main.ret_struct_info.names == ("y", "last"), each
    structir.save(PROGRAM, tmp_path / "program")
    assert structir.structural_equal(structir.load(tmp_path / "program"), PROGRAM)
    structir.compile(PROGRAM).save(tmp_path / "compiled")
    result = structir.load(tmp_path / "compiled")["main"](X, TREE)
    assert np.allclose(result[0], expected(), rtol=1e-5)


def test_parameters_of_expanded_tuples_have_the_names_of_the_fields() -> None:
    layer = passes.ExpandTupleArguments()(PROGRAM)["layer"]
    assert [param.name for param in layer.params] == ["x", "p_w", "p_b"]


def test_the_gradient_has_the_names_of_the_parameter() -> None:
    module = structir.parse("""@R.function
def main(x: R.Tensor((4,), "float32"), p: R.Tuple(w=R.Tensor((4,), "float32"),
         b=R.Tuple(c=R.Tensor((4,), "float32")))):
    return R.sum(x * p.w * p.w + p.b.c)
""")
    after = passes.Gradient(parameters="p")(module)
    result: Any = after["main_adjoint"].ret_struct_info
    assert result.fields[1].fields[0] == module["main"].params[1].struct_info
    assert "R.tuple(w=" in str(after)
    w = array(4)
    _, ((of_w, (of_c,)),) = structir.compile(after)["main_adjoint"](w, {"b": {"c": w}, "w": w})
    assert np.allclose(of_w, 2 * w * w) and np.allclose(of_c, 1)


SWAPPED = """@I.ir_module
class Module:
    @R.function
    def dense(p: R.Tuple(w=R.Tensor((4,), "float32"), b=R.Tensor((4,), "float32"))):
        return R.subtract(p.w, p.b)

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        {}
"""


@pytest.mark.parametrize(
    "body",
    [
        "return cls.dense(R.tuple(b=x, w=y))",
        "p: R.Tuple(w=R.Tensor, b=R.Tensor) = R.tuple(b=x, w=y)\n        return p",
        "p: R.Tuple(R.Tuple(w=R.Tensor, b=R.Tensor)) = (R.tuple(b=x, w=y),)\n        return p",
    ],
)
def test_fields_in_another_order_are_a_warning(body: str) -> None:
    with pytest.warns(DiagnosticWarning, match="expected the fields w, b, found b, w"):
        structir.parse(SWAPPED.format(body))


def test_fields_without_names_pass_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        structir.parse(SWAPPED.format("return cls.dense((x, y))"))
        structir.parse(SWAPPED.format("return cls.dense(R.tuple(w=x, b=y))"))


def test_a_builder_passes_the_entries_of_a_dict_by_name() -> None:
    builder = BlockBuilder(structir.parse(SWAPPED.format("return x")))
    x, y = (Var(name, TensorStructInfo((4,), "float32")) for name in "xy")
    with builder.function("other", [x, y]):
        call = builder.global_var("dense")({"b": y, "w": x})
        builder.emit_func_output(call)
    result = structir.interpret(builder.get(), "other", array(4), 2 * array(4))
    assert np.allclose(result, -array(4))


def test_two_stars_pass_the_fields_by_name() -> None:
    text = """@I.ir_module
class Module:
    @R.function
    def dense(w: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
        return R.subtract(w, b)

    @R.function
    def main(p: R.Tuple(b=R.Tensor((4,), "float32"), w=R.Tensor((4,), "float32"))):
        return cls.dense(VALUE)
"""
    both, one = (structir.parse(text.replace("VALUE", v)) for v in ("**p", "b=p.b, w=p.w"))
    assert structir.structural_equal(both, one)
    with pytest.raises(DiagnosticError, match="unexpected keyword argument `b`"):
        structir.parse(text.replace("VALUE", "**p").replace("b: R.Tensor", "c: R.Tensor"))
    with pytest.raises(DiagnosticError, match="not supported"):
        structir.parse(text.replace("VALUE", "**p.w"))


def test_a_field_hides_a_method_of_the_same_name() -> None:
    module = structir.parse("""@R.function
def main(x: R.Tensor((4,), "float32"),
         p: R.Tuple(astype=R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32")))):
    return p.astype(x)
""")
    assert "= p.astype\n" in str(module)
    assert str(structir.parse(str(module))) == str(module)


def test_tvm_prints_fields_without_names() -> None:
    text = tvm_text(PROGRAM)
    assert "R.Tuple(R.Tensor((4, 4)" in text and "= p[0]\n" in text
    assert "w=" not in text and "R.tuple" not in text


def test_infer_completes_the_fields_of_trees() -> None:
    module = structir.parse("""@R.function
def main(x: R.Tensor(("n", 4), "float32"),
         p: R.Tuple(w=R.Tensor(ndim=2), b=R.Tuple(c=R.Tensor(("m",))))) -> R.Tuple(out=R.Tensor):
    return (R.add(R.matmul(x, p.w), p.b.c),)
""")
    main = structir.infer(module)["main"]
    text = 'R.Tuple(w=R.Tensor((4, d0), dtype="float32"), b=R.Tuple(c=R.Tensor((m,), dtype='
    assert str(main.params[1].struct_info).startswith(text)
    assert str(main.ret_struct_info).startswith("R.Tuple(out=R.Tensor((n, ")
