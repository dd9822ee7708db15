"""A call with new sizes evaluates the expressions of its plan, and computes no layout again."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.errors import DiagnosticError, ShapeMismatchError, StructIRError
from structir.ir import dims
from structir.planning import layout
from structir.runtime.compiled_function import CompiledFunction
from structir.runtime.compiled_region import CompiledRegion
from structir.runtime.plans import sizes as backend_sizes
from structir.runtime.plans.planned_function import PlannedFunction

N, M = dims.sym("n"), dims.sym("m")
TERMS = [
    *(N, M, N * M, N * N * 3 - M, N * M * M - 7, 5, -N),
    *(dims.floordiv(N - 9, 3), dims.floormod(N - 9, M + 1), dims.ceildiv(N * M, 7)),
    *(dims.dim_max(N, M, 5 - N), dims.dim_min(N, M * 2, 40)),
    *[dims.compare(sign, N, M) for sign in ("<", "<=", ">", ">=", "==", "!=")],
    dims.select(dims.compare("<", N, M), dims.floordiv(N, M), N),
]


@given(
    weights=st.lists(st.integers(-(1 << 40), 1 << 40), min_size=20, max_size=20),
    n=st.one_of(st.integers(0, 100), st.integers(0, 1 << 40)),
    m=st.integers(0, 1 << 20),
)
def test_vectors_of_sizes_are_exact(weights, n, m):
    values = [TERMS[k % len(TERMS)] * w + k for k, w in enumerate(weights)]
    symbols = backend_sizes.symbols_of([N, M])
    numbers = dict(zip(symbols, (n, m) if symbols[0] is dims.as_sym(N) else (m, n), strict=True))
    evaluate = backend_sizes.Evaluator(values, symbols)
    for _ in range(3):  # first by Python, then by instructions
        computed = evaluate([*numbers.values()]).tolist()
        assert computed == [dims.evaluate(value, numbers) for value in values]
        assert all(type(value) is int for value in computed)


@pytest.mark.parametrize("bound", [(1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 70])
def test_bounds_that_no_size_exceeds_are_evaluated_in_compiled_code(bound):
    values = [dims.dim_min(N, bound), dims.dim_max(dims.dim_min(N - 5, bound), 1 - bound) * 2]
    program = backend_sizes.SizeProgram(values, [dims.as_sym(N)])
    for n in (0, 3, (1 << 40) + 1):
        assert program.run([n]).tolist() == [n, 2 * (n - 5)]


def test_vectors_report_a_division_by_zero():
    values = [dims.floordiv(N * k + 5, M) for k in range(1, 30)]
    evaluate = backend_sizes.Evaluator(values, [dims.as_sym(N), dims.as_sym(M)])
    for _ in range(3):
        assert evaluate([3, 2])[0] == 4
        with pytest.raises(DiagnosticError, match="division by zero"):
            evaluate([3, 0])


LIFETIMES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 4), st.sampled_from([1, 2, 4, 8])), max_size=12
)
ELEMENTS = st.sampled_from([0, 1, 15, 16, 17, 100, 3000, 1 << 43, (1 << 44) + 1, 1 << 63])


@given(values=LIFETIMES, elements=st.lists(st.lists(ELEMENTS, min_size=12, max_size=12)))
def test_arenas_of_later_sizes_are_laid_out_like_the_first(values, elements):
    spans = [backend_sizes.Lifetime(None, low, low + more, width) for low, more, width in values]
    arena = backend_sizes.ArenaLayout(spans)
    for counts in elements:
        counts = counts[: len(spans)]
        sizes = [
            -(-max(count, 1) * span.element_bytes // backend_sizes.ALIGNMENT)
            * backend_sizes.ALIGNMENT
            for span, count in zip(spans, counts, strict=True)
        ]
        expected = layout.assign_offsets([(s.first, s.last) for s in spans], sizes)
        offsets, size = arena.assign(counts)
        assert (offsets.tolist(), size) == expected


PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 6), "float32"), w: R.Tensor((6, 6), "float32"),
         y: R.Tensor(("m", 6), "float32")):
    a = R.nn.softmax(R.matmul(R.nn.relu(R.matmul(x, w)), w))
    return R.matmul(a, R.permute_dims(y)), R.concat((x, y), axis=0)
"""


def floats(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def arguments(n, m):
    return floats(n, 6), floats(6, 6), floats(m, 6)


@pytest.fixture(scope="module")
def module():
    return structir.parse(PROGRAM)


@pytest.mark.parametrize("threads", [1, 2])
def test_new_sizes_are_right(module, threads):
    main = structir.compile(module, num_threads=threads)["main"]
    rng = np.random.default_rng(5)
    for n, m in [*rng.integers(0, 40, (30, 2)), (3000, 2), (2, 3000), (1, 1)]:
        wanted = structir.interpret(module, "main", *arguments(n, m))
        for actual, expected in zip(main(*arguments(n, m)), wanted, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_new_sizes_reuse_the_layout_and_run_natively(module, monkeypatch):
    main = structir.compile(module)["main"]
    for n in (2, 3):
        main(*arguments(n, n + 1))
    calls = []
    monkeypatch.setattr(layout, "assign_offsets", lambda *args: calls.append(args))
    monkeypatch.setattr(CompiledFunction, "_call", lambda *args: calls.append(args))
    for n in range(4, 20):
        product, joined = main(*arguments(n, n + 1))
        assert product.shape == (n, n + 1) and joined.shape == (2 * n + 1, 6)
    assert not calls


def test_checks_hold_for_new_sizes(module):
    main = structir.compile(module)["main"]
    main(*arguments(3, 4))
    with pytest.raises(ShapeMismatchError, match="parameter w: axis 1"):
        main(floats(5, 6), floats(6, 5), floats(4, 6))
    with pytest.raises(ShapeMismatchError, match="expected dtype float32, found float64"):
        main(floats(5, 6), floats(6, 6).astype("float64"), floats(4, 6))
    wanted = structir.interpret(module, "main", *arguments(5, 7))
    x, w, y = arguments(5, 7)
    actual = main(np.asfortranarray(x), w, y[::-1].copy()[::-1])
    np.testing.assert_allclose(actual[0], wanted[0], rtol=1e-4, atol=1e-5)


def test_a_size_that_occurs_once_binds_no_kernels(module, monkeypatch):
    main = structir.compile(module, num_threads=1)["main"]
    for n in (2, 3):
        main(*arguments(n, n + 1))
    bound = []
    bind = CompiledRegion.bind_valid
    monkeypatch.setattr(
        CompiledRegion, "bind_valid", lambda self, *args: bound.append(args[0]) or bind(self, *args)
    )
    for n in range(4, 90):
        wanted = structir.interpret(module, "main", *arguments(n, 5))
        for actual, expected in zip(main(*arguments(n, 5)), wanted, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    assert not bound
    for _ in range(3):
        main(*arguments(88, 5))
    assert len(bound) == 1


def test_results_at_new_sizes_are_the_callers_own(module):
    main = structir.compile(module, num_threads=1)["main"]
    results = [main(*arguments(n, 5)) for n in (2, 3, 4, 5, 6)]
    copies = [[np.array(array) for array in pair] for pair in results]
    for n in (7, 8, 9):
        main(*arguments(n, 5))
    for pair, copied in zip(results, copies, strict=True):
        for array, before in zip(pair, copied, strict=True):
            np.testing.assert_array_equal(array, before)


NESTED_TUPLE = """
@R.function
def main(x: R.Tensor(("n", 6), "float32"), w: R.Tensor((6, 6), "float32")):
    a = R.matmul(x, w)
    return a, (R.sum(a, axis=[0]), a, x), ()
"""


def test_nested_results_are_right_at_new_sizes(monkeypatch):
    module = structir.parse(NESTED_TUPLE)
    main = structir.compile(module, num_threads=1)["main"]
    for n in range(2, 12):
        if n == 6:  # later sizes use the plan for all sizes
            monkeypatch.setattr(CompiledFunction, "_call", None)
        x, w = floats(n, 6), floats(6, 6)
        product, (total, same, argument), nothing = main(x, w)
        wanted = structir.interpret(module, "main", x, w)
        np.testing.assert_allclose(product, wanted[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total, wanted[1][0], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(same, product)
        np.testing.assert_array_equal(argument, x)
        assert nothing == () and not np.may_share_memory(same, product)
        assert not np.may_share_memory(argument, x)


PICKED = """
from structir.script import I, R, T


@I.ir_module
class Module:
    @I.kernel
    def picked(x: R.Tensor(("n",), "float32"), i: R.Tensor(("m",), "int64"),
               out: R.Tensor(("m",), "float32")):
        for k in range(m):
            out[k] = x[i[k]]

    @R.function
    def main(x: R.Tensor(("n",), "float32"), i: R.Tensor(("m",), "int64")):
        m = T.int64()
        return R.call_kernel(picked, (x, i), out_sinfo=R.Tensor((m,), "float32"))
"""


def test_an_error_of_a_kernel_is_reported_at_new_sizes():
    main = structir.compile(structir.parse(PICKED), num_threads=1)["main"]
    for n in range(2, 7):
        np.testing.assert_array_equal(main(floats(n), np.arange(n)[::-1]), floats(n)[::-1])
    for n in range(7, 20):
        with pytest.raises(StructIRError, match="out of range for axis 0 of x"):
            main(floats(n), np.array([0, n + 2]))
        assert main(floats(n), np.array([0, n - 1])).shape == (2,)


BRANCH = """
@R.function
def main(x: R.Tensor(("n", 6), "float32"), y: R.Tensor(("m", 6), "float32")):
    h = R.nn.relu(x)
    if R.greater(R.max(h), R.const(1, "float32")):
        z = R.exp(h)
    else:
        z = R.nn.relu(h)
    return R.concat((z, y), axis=0)
"""
SINGLE = BRANCH[: BRANCH.index("    if")] + "    return R.concat((h, y), axis=0)\n"
ENTERED = {SINGLE: (CompiledFunction, "_call_at_new_sizes"), BRANCH: (PlannedFunction, "__call__")}


@pytest.mark.parametrize("program", ENTERED, ids=["one region", "branch"])
def test_first_calls_at_new_sizes_are_native_and_second_ones_bind(program, monkeypatch):
    module, entered = structir.parse(program), []
    owner, name = ENTERED[program]
    original = getattr(owner, name)
    monkeypatch.setattr(
        owner, name, lambda self, *args: entered.append(args) or original(self, *args)
    )
    main = structir.compile(module, num_threads=1)["main"]
    for n in range(30, 20, -1):  # the memory suffices for the sizes below
        main(floats(n, 6), floats(n + 1, 6))
    entered.clear()
    for call in range(3):
        for n in range(2, 20):
            operands = floats(n, 6), floats(3, 6)
            wanted = structir.interpret(module, "main", *operands)
            np.testing.assert_allclose(main(*operands), wanted, rtol=1e-5)
        assert len(entered) == 18 * min(call, 1)  # the second call of each size


@cache
def compiled(program):
    """Returns a program and its function, whose plans all examples share."""
    module = structir.parse(program)
    return module, structir.compile(module, num_threads=1)["main"]


@pytest.mark.parametrize("program", ENTERED, ids=["one region", "branch"])
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 300)), max_size=40))
@settings(max_examples=10, deadline=None)
def test_sizes_in_any_order_are_right(program, sizes):
    module, main = compiled(program)
    for n, m in [(1, 1), (2, 2), (3, 3), *sizes, *sizes[::2]]:
        operands = floats(max(n, 1), 6), floats(m, 6)
        wanted = structir.interpret(module, "main", *operands)
        np.testing.assert_allclose(main(*operands), wanted, rtol=1e-5)
