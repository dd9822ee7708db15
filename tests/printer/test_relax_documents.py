"""The examples of TVM's documents that describe Relax, named by their position.

`abstraction` is "Graph Abstraction for ML Models", `learning` "Understand Relax Abstraction",
`creation` and `transformation` are the tutorials of these names, and `patterns` is "Dataflow
Pattern Language". Each program has the features of the example, in TVM's spelling where it has one.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import structir
from structir import ir, passes
from structir.interpret import register_extern
from structir.ir import BlockBuilder, Constant, Expr, IRModule, TensorStructInfo, Var
from structir.ir.dims import sym
from structir.opdef import Ints, Sizes
from structir.rewriting import (
    dims_of,
    dtype_of,
    extract_matches,
    made_by,
    rank_of,
    rewrite,
    used_once,
)
from structir.script import R

LINEAR = "x: R.Tensor((1, 6), dtype='float32'), weight: R.Tensor((6, 4), dtype='float32')"
MLP = ", ".join(
    f"{name}: R.Tensor({shape}, dtype='float32')"
    for name, shape in {
        "data": "('n', 6)",
        "w0": "(6, 4)",
        "b0": "(4,)",
        "w1": "(4, 3)",
        "b1": "(3,)",
    }.items()
)
HEADER = "from tvm.script import ir as I, relax as R, tirx as T\n"
TIR = """
    @T.prim_func(private=True)
    def linear(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        M, N, K = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (M, K), "float32")
        W = T.match_buffer(w, (K, N), "float32")
        B = T.match_buffer(b, (N,), "float32")
        Z = T.match_buffer(z, (M, N), "float32")
        Y = T.alloc_buffer((M, N), "float32")
        for i, j, k in T.grid(M, N, K):
            with T.sblock("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0.0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vk, vj]
        for i, j in T.grid(M, N):
            with T.sblock("bias"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @T.prim_func(private=True)
    def relu(x: T.handle, y: T.handle):
        M, N = T.int64(), T.int64()
        X = T.match_buffer(x, (M, N), "float32")
        Y = T.match_buffer(y, (M, N), "float32")
        for i, j in T.grid(M, N):
            with T.sblock("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0.0))
"""
TIR_CALLS = """
        cls = Module
        n = T.int64()
        with R.dataflow():
            lv = R.call_tir(cls.linear, (data, w0, b0), out_sinfo=R.Tensor((n, 4), dtype="float32"))
            lv1 = R.call_tir(cls.relu, (lv,), out_sinfo=R.Tensor((n, 4), dtype="float32"))
            lv2 = R.call_tir(cls.linear, (lv1, w1, b1), out_sinfo=R.Tensor((n, 3), dtype="float32"))
            R.output(lv2)
        return lv2
"""
OPS = """
        with R.dataflow():
            lv0 = R.matmul(data, w0) + b0
            lv1 = R.nn.relu(lv0)
            lv2 = R.matmul(lv1, w1) + b1
            R.output(lv2)
        return lv2
"""
TRANSPOSED = OPS.replace("w0)", "R.permute_dims(w0))").replace("w1)", "R.permute_dims(w1))")


def mlp(body: str, members: str = "", params: str = MLP) -> IRModule:
    head = f"@I.ir_module\nclass Module:{members}\n    @R.function\n    def main({params})"
    return structir.parse(f"{HEADER}\n{head} -> R.Tensor(('n', 3), dtype='float32'):{body}")


def arguments(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s, dtype="float32") for s in shapes]


def numpy_mlp(data: Any, w0: Any, b0: Any, w1: Any, b1: Any) -> Any:
    return np.maximum(data @ w0 + b0, 0) @ w1 + b1


SHAPES = ((5, 6), (6, 4), (4,), (4, 3), (3,))


def check_mlp(module: IRModule, transposed: bool = False) -> None:
    args = arguments(*SHAPES)
    given = [a.T.copy() if transposed and k in (1, 3) else a for k, a in enumerate(args)]
    result = structir.compile(module)["main"](*given)
    np.testing.assert_allclose(result, numpy_mlp(*args), rtol=1e-5, atol=1e-5)


def test_abstraction_what_is_graph_abstraction() -> None:
    text = f"""
@R.function
def main({LINEAR}, bias: R.Tensor((4,), dtype='float32')) -> R.Tensor((1, 4), dtype='float32'):
    with R.dataflow():
        lv0 = R.matmul(x, weight)
        lv1 = R.add(lv0, bias)
        gv = R.nn.relu(lv1)
        R.output(gv)
    return gv
"""
    x, w, b = arguments((1, 6), (6, 4), (4,))
    result = structir.compile(structir.parse(text))["main"](x, w, b)
    np.testing.assert_allclose(result, np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-6)


def test_learning_high_level_operations() -> None:
    check_mlp(mlp(OPS))


def test_learning_low_level_integration_and_call_tir() -> None:
    module = mlp(TIR_CALLS, TIR)
    check_mlp(module)
    assert str(module["main"].ret_struct_info) == 'R.Tensor((n, 3), dtype="float32")'
    assert {name for name in module.functions} == {"linear", "relu", "main"}


def test_learning_dataflow_block_has_no_side_effects() -> None:
    text = """
@R.function
def main(x: R.Tensor((2,), 'float32')):
    with R.dataflow():
        y = R.call_packed('print', x, sinfo_args=R.Tensor((2,), 'float32'))
        R.output(y)
    return y
"""
    with pytest.raises(structir.errors.WellFormedError, match="side effects"):
        structir.analysis.check_well_formed(structir.parse(text))


def test_creation_tvmscript() -> None:
    params = MLP.replace("(6, 4)", "(4, 6)").replace("(4, 3)", "(3, 4)")
    check_mlp(mlp(TRANSPOSED, params=params), transposed=True)


def test_creation_tvmscript_with_tir() -> None:
    relu = TIR[TIR.index("    @T.prim_func(private=True)\n    def relu") :]
    body = OPS.replace(
        "R.nn.relu(lv0)", "R.call_tir(cls.relu, lv0, R.Tensor((n, 4), dtype='float32'))"
    )
    body = body.replace(
        "\n        with", "\n        n = T.int64()\n        cls = Module\n        with", 1
    )
    check_mlp(mlp(body, "\n" + relu))


def test_creation_note_nested_calls_are_printed_as_bindings() -> None:
    params = MLP.replace("(6, 4)", "(4, 6)").replace("(4, 3)", "(3, 4)")
    lines = mlp(TRANSPOSED, params=params).script().splitlines()
    values = [line.split(" = ", 1)[1] for line in lines if " = R." in line]
    assert values[:3] == ["R.permute_dims(w0)", "R.matmul(data, lv)", "R.add(lv3, b0)"]


def test_creation_nn_module_is_a_traced_function() -> None:
    def forward(x: Any, w0: Any, b0: Any, w1: Any, b1: Any) -> Any:
        return structir.nn.relu(x @ w0 + b0) @ w1 + b1

    infos = [R.Tensor(("n", 6), "float32"), *[R.Tensor(s, "float32") for s in SHAPES[1:]]]
    module = structir.trace(forward, *infos)
    args = arguments(*SHAPES)
    name = next(iter(module.functions))
    result = structir.compile(module)[name](*args)
    np.testing.assert_allclose(result, numpy_mlp(*args), rtol=1e-5, atol=1e-5)


def variables() -> list[Var]:
    shapes = [(sym("n"), 6), *SHAPES[1:]]
    names = ("x", "w0", "b0", "w1", "b1")
    return [Var(v, TensorStructInfo(s, "float32")) for v, s in zip(names, shapes, strict=True)]


def test_creation_block_builder() -> None:
    x, w0, b0, w1, b1 = params = variables()
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            lv0 = builder.emit(R.add(R.matmul(x, w0), b0))
            lv1 = builder.emit(R.nn.relu(lv0))
            gv = builder.emit_output(R.add(R.matmul(lv1, w1), b1))
        builder.emit_func_output(gv)
    check_mlp(builder.get())


def test_creation_external_functions_and_kernels() -> None:
    register_extern("tests.linear", lambda x, w, b, out: np.add(x @ w, b, out=out))
    call = (
        "R.call_dps_packed('tests.linear', (data, w0, b0), out_sinfo=R.Tensor((n, 4), 'float32'))"
    )
    body = TIR_CALLS.replace(
        'R.call_tir(cls.linear, (data, w0, b0), out_sinfo=R.Tensor((n, 4), dtype="float32"))', call
    )
    check_mlp(mlp(body, TIR))


def test_transformation_legalize_and_fuse() -> None:
    lowered = passes.Lower()(mlp(OPS))
    calls = [b.value for b in lowered["main"].bindings()]
    assert all(isinstance(call.op, ir.GlobalVar) for call in calls)
    assert len(calls) < 5  # of five operations
    check_mlp(lowered)


def run(rule: Any, module: IRModule) -> list[str]:
    """Returns the values of the bindings after a rewrite, which must preserve the results."""
    with passes.PassContext([passes.VerifyIR(), passes.VerifyResults()]):
        rewritten = passes.pipeline(rule.name)(module)
    return [str(binding.value) for binding in rewritten["main"].bindings()]


def program(params: str, *lines: str) -> IRModule:
    body = "\n".join([f"        {line}" for line in lines[:-1]])
    text = f"@R.function\ndef main({params}):\n    with R.dataflow():\n{body}\n"
    return structir.parse(f"{text}        R.output({lines[-1]})\n    return {lines[-1]}\n")


VISITED = (ir.Function, ir.SeqExpr, ir.DataflowBlock, ir.VarBinding)


def test_transformation_custom_pass() -> None:
    def visit(node: Any) -> Any:
        if isinstance(node, ir.Call) and getattr(node.op, "name", "") == "nn.relu":
            return R.nn.gelu(node.args[0])
        return ir.rebuild(node, visit) if isinstance(node, VISITED) else node

    @structir.module_pass
    def relu_to_gelu(module: IRModule) -> IRModule:
        return module.with_functions({n: visit(f) for n, f in module.functions.items()})

    text = relu_to_gelu(mlp(OPS)).script()
    assert "R.nn.gelu" in text and "R.nn.relu" not in text


X = 'x: R.Tensor(("n", 8), "float32"), y: R.Tensor(("n", 8), "float32")'


def test_patterns_calls_and_matching_without_rewriting() -> None:
    def any_sum(a: Expr, b: Expr) -> Iterator[Expr]:
        yield R.add(a, b)
        yield R.add(a, b)

    module = program(X, "a = R.add(x, y)", "b = R.exp(a)", "c = R.add(b, x)", "c")
    matches = extract_matches(module, rewrite(any_sum))["main"].bindings()
    assert [isinstance(b.value.op, ir.GlobalVar) for b in matches] == [True, False, True]


def test_patterns_constants() -> None:
    def drop_factor(a: Expr, c: Constant) -> Iterator[Expr]:
        yield R.multiply(R.multiply(a, c), R.const(0.5, "float32"))
        yield R.multiply(a, R.multiply(c, R.const(0.5, "float32")))

    module = program(X, "a = x * 4.0", "b = a * 0.5", "b")
    assert "R.multiply(a, " not in " ".join(run(rewrite(drop_factor), module))


def test_patterns_tuples() -> None:
    def first_half(a: Expr, axis: int) -> Iterator[Expr]:
        yield R.split(a, 2, axis=axis)[0]
        if axis == 1:
            yield R.strided_slice(a, axes=[1], begin=[0], end=[4])

    values = run(rewrite(first_half), program(X, "s = R.split(x, 2, axis=1)", "a = s[0]", "a"))
    assert any("strided_slice" in value for value in values)


def test_patterns_constraints() -> None:
    def halves(a: Expr, b: Expr) -> Iterator[Expr]:
        yield R.matmul(a, b)
        if dtype_of(a) == "float16" and dims_of(b) == (8, 8):
            yield R.linear(a, R.permute_dims(b))

    for dtype, last in (("float16", "R.linear(x, lv)"), ("float32", "R.matmul(x, w)")):
        params = f'x: R.Tensor((4, 8), "{dtype}"), w: R.Tensor((8, 8), "{dtype}")'
        module = program(params, "a = R.matmul(x, w)", "a")
        assert (
            str(passes.pipeline(rewrite(halves).name)(module)["main"].bindings()[-1].value) == last
        )


def test_patterns_logical_combinators() -> None:
    def activation(b: Expr) -> Iterator[Expr]:
        yield R.negative(b)
        if made_by(b, R.nn.relu) or made_by(b, R.nn.gelu):
            yield R.multiply(b, R.const(-1.0, "float32"))

    for name, matches in (("relu", True), ("gelu", True), ("silu", False)):
        module = program(X, f"a = R.nn.{name}(x)", "b = R.negative(a)", "b")
        assert ("R.multiply" in run(rewrite(activation), module)[-1]) == matches


def test_patterns_sequences() -> None:
    """`>>` requires that only the addition reads the product."""

    def fuse(a: Expr, b: Expr, c: Expr) -> Iterator[Expr]:
        product = R.multiply(a, b)
        yield R.add(product, c)
        if used_once(product):
            yield R.ewise_fma(a, b, c)

    rule = rewrite(fuse)
    once = program(X, "a = R.multiply(x, y)", "b = R.add(a, y)", "b")
    twice = program(X, "a = R.multiply(x, y)", "b = R.add(a, y)", "c = R.add(b, a)", "c")
    assert run(rule, once) == ["R.ewise_fma(x, y, y)"]
    assert "R.multiply(x, y)" in run(rule, twice)


def test_patterns_rewrite_call() -> None:
    def one_reshape(a: Expr, s: Sizes, t: Sizes) -> Iterator[Expr]:
        yield R.reshape(R.reshape(a, s), t)
        yield R.reshape(a, t)

    module = program(
        'x: R.Tensor((4, 6), "float32")', "a = R.reshape(x, (24,))", "b = R.reshape(a, (3, 8))", "b"
    )
    assert run(rewrite(one_reshape), module) == ["R.reshape(x, (3, 8))"]


def test_patterns_rewrite_bindings_merges_three_products() -> None:
    params = 'x: R.Tensor((4, 8), "float32"), ' + ", ".join(
        [f'w{k}: R.Tensor((8, 3), "float32")' for k in range(3)]
    )
    lines = [f"p{k} = R.matmul(x, w{k})" for k in range(3)]
    module = program(params, *lines, "a = R.add(p0, p1)", "b = R.add(a, p2)", "b")
    merged = passes.pipeline("combine_parallel_matmul")(module)
    assert str(merged).count("R.matmul(") == 1
    args = arguments((4, 8), (8, 3), (8, 3), (8, 3))
    np.testing.assert_allclose(
        structir.interpret(merged, "main", *args), args[0] @ sum(args[1:]), rtol=1e-5, atol=1e-5
    )


def test_patterns_declarative_rewriting_and_composition() -> None:
    register_extern("tests.fast_add", np.add)

    def add_to_packed(a: Expr, b: Expr) -> Iterator[Expr]:
        yield R.add(a, b)
        yield R.call_pure_packed("tests.fast_add", a, b, sinfo_args=a.struct_info)

    def drop_double_negative(a: Expr) -> Iterator[Expr]:
        yield R.negative(R.negative(a))
        yield a

    names = [rewrite(rule).name for rule in (drop_double_negative, add_to_packed)]
    module = program(X, "a = R.negative(x)", "b = R.negative(a)", "c = R.add(b, y)", "c")
    (binding,) = passes.pipeline(",".join(names))(module)["main"].bindings()
    assert str(binding.value).startswith('R.call_pure_packed("tests.fast_add", x, y')


def test_patterns_fuse_ops_by_pattern() -> None:
    def transposed_product(a: Expr, w: Expr, axes: Ints) -> Iterator[Expr]:
        turned = R.permute_dims(w, axes)
        yield R.matmul(a, turned)
        if rank_of(w) == 2 and tuple(axes or (1, 0)) == (1, 0):
            yield R.matmul(a, turned)

    params = 'x: R.Tensor((4, 8), "float32"), w: R.Tensor((3, 8), "float32")'
    module = program(params, "t = R.permute_dims(w, [1, 0])", "y = R.matmul(x, t)", "y")
    fused = extract_matches(module, rewrite(transposed_product))
    assert fused["transposed_product"].attrs == {"composite": "transposed_product"}
