"""Functions of TVM's TIR parse as kernels and compute what NumPy computes."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.script import I, R, T

PRODUCT = """
@I.ir_module
class Module:
    @T.prim_func
    def mm(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        k = T.int64()
        A = T.match_buffer(a, (n, k))
        B = T.match_buffer(b, (k, T.int64(4)), "float32")
        C = T.match_buffer(c, (n, T.int64(4)), "float32")
        for i, j, kk in T.grid(n, T.int64(4), k):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, kk])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", 4), "float32")):
        n = T.int64()
        y = R.call_tir(Module.mm, (x, w), out_ty=R.Tensor((n, 4), "float32"))
        return y
"""
SOFTMAX = """
@I.ir_module
class Module:
    @T.prim_func
    def softmax(var_A: T.handle, var_B: T.handle):
        T.func_attr({"tirx.noalias": True})
        n = T.int64()
        A = T.match_buffer(var_A, (n, T.int64(8)))
        T_softmax_norm = T.match_buffer(var_B, (n, T.int64(8)))
        with T.sblock("root"):
            T_max = T.sblock_alloc_buffer((n,))
            T_exp = T.sblock_alloc_buffer((n, T.int64(8)))
            T_sum = T.sblock_alloc_buffer((n,))
            for i0, k in T.grid(n, T.int64(8)):
                with T.sblock("T_softmax_maxelem"):
                    v_i0, v_k = T.axis.remap("SR", [i0, k])
                    T.reads(A[v_i0, v_k])
                    T.writes(T_max[v_i0])
                    with T.init():
                        T_max[v_i0] = T.float32(-3.4028234663852886e+38)
                    T_max[v_i0] = T.max(T_max[v_i0], A[v_i0, v_k])
            for i0, i1 in T.grid(n, T.int64(8)):
                with T.sblock("T_softmax_exp"):
                    v_i0 = T.axis.spatial(n, i0)
                    v_i1 = T.axis.spatial(T.int64(8), i1)
                    T_exp[v_i0, v_i1] = T.exp(A[v_i0, v_i1] - T_max[v_i0])
            for i0, k in T.grid(n, T.int64(8)):
                with T.sblock("T_softmax_expsum"):
                    v_i0, v_k = T.axis.remap("SR", [i0, k])
                    with T.init():
                        T_sum[v_i0] = T.float32(0.0)
                    T_sum[v_i0] = T_sum[v_i0] + T_exp[v_i0, v_k]
            for i0, i1 in T.grid(n, T.int64(8)):
                with T.sblock("T_softmax_norm"):
                    v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                    T_softmax_norm[v_i0, v_i1] = T_exp[v_i0, v_i1] / T_sum[v_i0]
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        n = T.int64()
        y = R.call_tir(cls.softmax, x, R.Tensor((n, 8), "float32"))
        return y
"""
OTHERS = """
@I.ir_module
class Module:
    @T.prim_func
    def pool(x: T.Buffer((1, 2, 5, 5), "float32"), y: T.Buffer((1, 2, 2, 2), "float32")):
        for n, c, h, w, rh, rw in T.grid(1, 2, 2, 2, 3, 3):
            with T.block("pool"):
                vn, vc, vh, vw, vrh, vrw = T.axis.remap("SSSSRR", [n, c, h, w, rh, rw])
                with T.init():
                    y[vn, vc, vh, vw] = T.min_value("float32")
                inside = T.And(0 <= vh * 2 + vrh, vh * 2 + vrh < 5)
                y[vn, vc, vh, vw] = T.max(
                    y[vn, vc, vh, vw],
                    T.if_then_else(
                        inside, x[vn, vc, vh * 2 + vrh, vw * 2 + vrw], T.min_value("float32")
                    ),
                )
    @T.prim_func
    def tri(x: T.Buffer((5,), "float32"), y: T.Buffer((5,), "float32"), n: T.int64):
        for ko, ki in T.grid(2, 3):
            with T.block("b"):
                vk = T.axis.spatial(5, ko * 3 + ki)
                T.where(ko * 3 + ki < 5)
                sign = T.Select(vk % 2 == 0, T.float32(1), T.float32(-1))
                y[vk] = T.Cast("float32", vk * n) + x[vk] * T.float32(2) + sign
    @T.prim_func
    def red(x: T.Buffer((5, 4), "int32"), y: T.Buffer((4,), "int32")):
        for k in T.serial(5):
            for j in T.parallel(4):
                with T.block("b"):
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.reduce(5, k)
                    with T.init():
                        y[vj] = 0
                    y[vj] = y[vj] + x[vk, vj] * T.int32(2) + T.Cast("int32", vk)
    @R.function
    def main(
        x: R.Tensor((1, 2, 5, 5), "float32"),
        z: R.Tensor((5,), "float32"),
        w: R.Tensor((5, 4), "int32"),
    ):
        a = R.call_tir(cls.pool, (x,), out_sinfo=R.Tensor((1, 2, 2, 2), "float32"))
        b = R.call_tir(cls.tri, (z,), out_sinfo=R.Tensor((5,), "float32"), tir_vars=R.shape([7]))
        c = R.call_tir(cls.red, (w,), out_sinfo=R.Tensor((4,), "int32"))
        return a, b, c
"""
RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def check(text, args, expected):
    module = structir.parse(text) if isinstance(text, str) else text
    assert structir.structural_equal(structir.parse(module.script()), module)
    runs = (lambda *a: structir.interpret(module, "main", *a), structir.compile(module)["main"])
    for run in runs:
        results = run(*args)
        results = results if isinstance(results, tuple) else (results,)
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)


def test_a_product_starts_its_sums_before_their_loop():
    x, w = normal(5, 6), normal(6, 4)
    check(PRODUCT, (x, w), (x @ w,))
    assert "C[i, j] = 0.0\n                for kk in range(k):" in structir.parse(PRODUCT).script()


def test_buffers_inside_of_a_function_are_arrays_of_the_kernel():
    x = normal(3, 8)
    exponentials = np.exp(x - x.max(1, keepdims=True))
    check(SOFTMAX, (x,), (exponentials / exponentials.sum(1, keepdims=True),))


def test_windows_predicates_scalars_and_reductions_in_outer_loops():
    x, z = normal(1, 2, 5, 5), normal(5)
    w = RANDOM.integers(0, 9, (5, 4)).astype("int32")
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
    signs = np.where(np.arange(5) % 2 == 0, 1, -1)
    expected = (windows.max((-2, -1)), np.arange(5) * 7 + z * 2 + signs, (w * 2).sum(0) + 10)
    check(OTHERS, (x, z, w), expected)


def test_a_decorated_class_has_functions_of_tir():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def scaled(
            A: T.Buffer((T.int64(2), T.int64(3)), "float32"),
            B: T.Buffer((T.int64(2), T.int64(3)), "float32"),
        ):
            for i, j in T.grid(T.int64(2), T.int64(3)):
                with T.sblock("scaled"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[vi, vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = A[vi, vj] * T.float32(2)

        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            cls = Module
            return R.call_tir(cls.scaled, (x,), out_sinfo=R.Tensor((2, 3), "float32"))

    x = normal(2, 3)
    check(Module, (x,), (2 * x,))


def test_the_start_of_a_reduction_over_a_fused_loop_depends_on_the_axis():
    text = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def total(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for fused in range(32):
            with T.sblock("total"):
                vk = T.axis.reduce((0, 8), fused % 8)
                vi = T.axis.spatial(4, fused // 8)
                with T.init():
                    B[vi] = T.float32(1)
                B[vi] += A[vi, vk]
    @R.function
    def main(x: R.Tensor((4, 8), "float32")):
        return R.call_tir(Module.total, (x,), out_ty=R.Tensor((4,), "float32"))
"""
    x = normal(4, 8)
    check(text, (x,), (x.sum(1) + 1,))


def test_functions_of_tir_use_values_of_python():
    count, dtype, config = 6, "float32", {"scale": 0.5, "shape": (6,)}

    @I.ir_module
    class Module:
        @T.prim_func(s_tir=True)
        def scaled(A: T.Buffer((count,), dtype), B: T.Buffer(config["shape"], dtype)):
            for i in range(count):
                with T.sblock("scaled"):
                    vi = T.axis.spatial(count, i)
                    B[vi] = A[vi] * T.Cast(dtype, count) + T.float32(config["scale"])

        @R.function
        def main(x: R.Tensor((count,), dtype)):
            cls = Module
            return R.call_tir(cls.scaled, (x,), out_sinfo=R.Tensor((count,), dtype))

    x = normal(6)
    check(Module, (x,), (x * 6 + 0.5,))


def test_sizes_of_buffers_may_choose():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def f(a: T.handle, b: T.Buffer((T.max(T.if_then_else(n < 3, n * 2, n), 1),), "float32")):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(T.max(T.if_then_else(n < 3, n * 2, n), 1)):
            b[i] = A[i % n]
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        size = T.max(T.if_then_else(n < 3, n * 2, n), 1)
        return R.call_tir(cls.f, (x,), R.Tensor((size,), "float32"))
"""
    x = normal(2)
    check(text, (x,), (np.r_[x, x],))


@pytest.mark.parametrize(("divisor", "expected"), [(3, 1), (-3, -1), (-7, 0)])
def test_quotients_of_any_sign_round_toward_zero(divisor, expected):
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def f(
        x: T.Buffer((2,), "int64"), y: T.Buffer((1,), "int64"),
        q: T.Buffer((2,), "int64"), r: T.Buffer((2,), "int64"),
    ):
        for i in range(2):
            q[i] = T.truncdiv(x[i], y[0])
            r[i] = T.truncmod(x[i], y[0])
    @R.function
    def main(x: R.Tensor((2,), "int64"), y: R.Tensor((1,), "int64")):
        return R.call_tir(
            cls.f, (x, y), [R.Tensor((2,), "int64"), R.Tensor((2,), "int64")]
        )
"""
    x = np.array([5, -5])
    quotients = np.array([expected, -expected])
    check(text, (x, np.array([divisor])), (quotients, x - quotients * divisor))


def test_a_call_in_place_computes_from_the_operand_which_keeps_its_value():
    text = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def accumulate(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 2), "float32")
        B = T.match_buffer(b, (n, 2), "float32")
        C = T.match_buffer(c, (n, 2), "float32")
        for i, j in T.grid(n, 2):
            with T.sblock("accumulate"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = B[vi, vj] + A[vi, vj]
                C[vi, vj] = B[vi, vj] * T.float32(2)
    @R.function
    def main(x: R.Tensor(("n", 2), "float32"), y: R.Tensor(("n", 2), "float32")):
        n = T.int64()
        r = R.call_tir_inplace(
            Module.accumulate, (x, y), inplace_indices=[1, -1],
            out_ty=[R.Tensor((n, 2), "float32"), R.Tensor((n, 2), "float32")],
        )
        return (r[0], r[1], y)
"""
    x, y = normal(3, 2), normal(3, 2)
    check(text, (x, y), (x + y, 2 * (x + y), y))


def test_a_buffer_with_one_element_is_a_scalar_as_tvm_prints_it():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def count(A: T.Buffer((5,), "float32"), B: T.Buffer((1,), "int32")):
        i: T.int32 = 0
        total = T.alloc_buffer((1, 1), "int32")
        B = 0
        total = 3
        while i < 5:
            if A[i] > T.float32(0.0):
                B = B + total
            i = i + 1
        B[0] = B[0] + 1
    @R.function
    def main(x: R.Tensor((5,), dtype="float32")) -> R.Tensor((1,), dtype="int32"):
        return R.call_tir(Module.count, (x,), out_ty=R.Tensor((1,), dtype="int32"))
"""
    x = normal(5)
    check(text, (x,), (np.array([(x > 0).sum() * 3 + 1]),))


OLDER_STYLES = {
    "buffers by subscript, threads by position": """
    def f(A: T.Buffer[(8,), "float32"], B: T.Buffer[(8,), "float32"]) -> None:
        T.preflattened_buffer(A, [8], dtype="float32")
        for i in T.thread_binding(8, "threadIdx.x"):
            B[i] = A[i] * T.float32(2)
""",
    "threads of a launch": """
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        with T.launch_thread("blockIdx.x", 2) as bx:
            with T.launch_thread("threadIdx.x", 4) as tx:
                B[bx * 4 + tx] = A[bx * 4 + tx] * T.float32(2)
""",
    "named values and declared buffers": """
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        C = T.decl_buffer((8,), "float32")
        for i in range(8):
            with T.LetStmt(A[i] + A[i]) as doubled:
                C[i] = doubled
            B[i] = C[i]
""",
    "steps": """
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(0, 8, 2):
            B[i] = A[i] + A[i]
        for i in T.serial(1, 8, step=2):
            B[i] = A[i] * T.float32(2)
""",
    "blocks within blocks, opaque axes": """
    def f(a: T.handle, b: T.handle):
        A = T.match_buffer(a, [8], dtype="float32")
        B = T.match_buffer(b, [8], dtype="float32")
        for i, j in T.grid(2, 4):
            with T.block("outer"):
                vi, vj = T.axis.remap("SO", [i, j])
                T.reads([A[vi * 4 + vj]])
                T.writes([B[vi * 4 + vj]])
                for k in T.serial(0, 1):
                    with T.block("inner"):
                        vk = T.axis.opaque(1, k)
                        B[vi * 4 + vj + vk] = A[vi * 4 + vj + vk] * T.float32(2)
""",
}


@pytest.mark.parametrize("function", OLDER_STYLES.values(), ids=OLDER_STYLES)
def test_older_styles(function):
    text = f"""
@I.ir_module
class Module:
    @T.prim_func{function}
    @R.function
    def main(x: R.Tensor((8,), "float32")):
        return R.call_tir(Module.f, (x,), out_sinfo=R.Tensor((8,), "float32"))
"""
    x = normal(8)
    check(text, (x,), (2 * x,))


def test_a_scalar_parameter_is_a_size_of_buffers():
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def f(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.serial(n):
            B[i] = A[n - 1 - i]
    @R.function
    def main(x: R.Tensor((5,), "float32")):
        return R.call_tir(cls.f, (x,), R.Tensor((5,), "float32"), tir_vars=R.shape([5]))
"""
    x = normal(5)
    check(text, (x,), (x[::-1],))


EXPRESSIONS = [
    ("T.exp(x[i]) + T.sqrt(T.abs(x[i]))", lambda x, i: np.exp(x) + np.sqrt(np.abs(x))),
    ("T.Select(i % 2 == 0, x[i], T.float32(0))", lambda x, i: np.where(i % 2 == 0, x, 0)),
    ("T.if_then_else(i >= 1, x[i - 1], T.float32(1))", lambda x, i: np.r_[1, x[:-1]]),
    ("x[T.truncmod(i + 3, 5)]", lambda x, i: x[(i + 3) % 5]),
    ("T.Cast('float32', T.truncdiv(i - 4, 2))", lambda x, i: np.trunc((i - 4) / 2)),
    ("T.Cast('float32', T.floordiv(i - 4, 2))", lambda x, i: (i - 4) // 2),
    ("T.max(x[i], T.min_value('float32')) * T.float32(-0.5)", lambda x, i: -0.5 * x),
    ("T.min(x[i], T.infinity('float32'))", lambda x, i: x),
    ("T.Cast('float32', T.And(i > 1, T.Not(i == 3)))", lambda x, i: (i > 1) & (i != 3)),
    ("T.pow(x[i], T.float32(2)) - T.sigmoid(x[i])", lambda x, i: x**2 - 1 / (1 + np.exp(-x))),
    ("T.Cast('float32', T.shift_left(i, 1) + T.bitwise_and(i, 3))", lambda x, i: i * 2 + (i & 3)),
    ("T.Cast('float32', T.min(i, T.min_value('int32')))", lambda x, i: 0 * i - 2.0**31),
]


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS)
def test_scalar_expressions(expression, expected):
    text = f"""
@I.ir_module
class Module:
    @T.prim_func
    def f(x: T.Buffer((5,), "float32"), y: T.Buffer((5,), "float32")):
        for i in T.serial(5):
            y[i] = {expression}
    @R.function
    def main(x: R.Tensor((5,), "float32")):
        return R.call_tir(cls.f, (x,), R.Tensor((5,), "float32"))
"""
    x = normal(5)
    check(text, (x,), (expected(x, np.arange(5)),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("for i in foo(5): y[i] = x[i]", "no counterpart in kernels: a loop over foo"),
        ("with T.attr(x, 1): y[0] = x[0]", "no counterpart in kernels: `with T.attr"),
        ("z = T.match_buffer(w, (5,))", "no counterpart in kernels: `z = T.match_buffer"),
        ("T.call_extern('f', x)", "no counterpart in kernels: `T.call_extern"),
        ("y[0] = T.Cast('float32x4', x[0])", "unknown dtype 'float32x4'"),
        ("y[0] = T.Cast(DTYPE, x[0])", "unknown dtype 'DTYPE'"),
        ("y[0] = T.if_then_else(x[0])", "no counterpart in kernels: `T.if_then_else(x[0])`"),
        ("y[0] = T.popcount(x[0])", "unknown kernel function `T.popcount`"),
    ],
)
def test_a_form_without_counterpart_is_one_error_with_its_line(line, message):
    text = "@T.prim_func\ndef f(x: T.Buffer((5,), 'float32'), y: T.Buffer((5,), 'float32')):\n"
    with pytest.raises(DiagnosticError) as caught:
        structir.parse(f"{text}    {line}\n")
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.hint and diagnostic.span.line == 3
