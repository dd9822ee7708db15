"""Handwritten index specs run on NumPy: every form of index, monoid and write, at many sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structir.ir.dims import Sym, as_dim, sym
from structir.ir.dtype import DTYPES, numpy_dtype
from structir.projections.access import LoopSpace, load, writeable_view
from structir.projections.conversion import convert_dtype
from structir.projections.run import run
from structir.projections.scalar_expr import LoopIndex, OperandElement, ScalarLiteral, exp
from structir.projections.spec import (
    AccessIndex,
    Condition,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Scan,
    Statement,
    Write,
    affine,
    product_of_reads,
    scan_of,
)

X, Y, IDS = OperandElement("x"), OperandElement("y"), OperandElement("ids")
RNG = np.random.default_rng(3)


def letters(names):
    return tuple(Sym(name) for name in names.split())


def entries(shape, *indices, **marks):
    """Returns the indices of an access to axes of these sizes."""
    made = [as_dim(i) if isinstance(i, Sym) else i for i in indices]
    return tuple(AccessIndex(i, n, **marks) for i, n in zip(made, shape, strict=True))


def spec_of(operands, result, extents, *statements, dtype="float32", **keywords):
    """Returns a spec with one result, and operands by name and shape."""
    infos = [OperandInfo(n, (k,), s, dtype) for k, (n, s) in enumerate(operands.items())]
    return IndexSpec(
        tuple(infos), (ResultInfo("out", result, dtype),), extents, statements, **keywords
    )


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


def matmul_spec(b, i, k, j, reads=None):
    """Returns the spec of a batched matrix product."""
    lb, li, lk, lj = letters("b i k j")
    left = Read("x", 0, entries((b, i, k), lb, li, lk))
    right = Read("y", 1, entries((b, k, j), lb, lk, lj))
    write = Write(0, entries((b, i, j), lb, li, lj), X * Y)
    statement = Statement((lb, li, lj), (lk,), (), (left, right), (write,), monoid="sum")
    extents = {lb: b, li: i, lk: k, lj: j}
    return spec_of({"x": (b, i, k), "y": (b, k, j)}, (b, i, j), extents, statement)


@pytest.mark.parametrize(
    "sizes", [(2, 3, 4, 5), (1, 3, 4, 1), (2, 0, 4, 5), (2, 3, 0, 5), (0, 1, 1, 1)]
)
def test_matrix_product(sizes):
    b, i, k, j = sizes
    x, y = floats(b, i, k), floats(b, k, j)
    (result,) = run(matmul_spec(*sizes), [x, y])
    np.testing.assert_allclose(result, x @ y, rtol=1e-5, atol=1e-6)
    assert result.dtype == np.float32


def test_matrix_product_of_symbolic_sizes():
    b, i, k, j = (sym(n) for n in "bikj")
    sizes = {next(iter(d.terms))[0]: n for d, n in zip((b, i, k, j), (2, 3, 4, 5), strict=True)}
    x, y = floats(2, 3, 4), floats(2, 4, 5)
    (found,) = run(matmul_spec(b, i, k, j), [x, y], sizes)
    np.testing.assert_allclose(found, x @ y, rtol=1e-5)


def test_views_need_no_contiguous_operands():
    x, y = floats(4, 3, 2).transpose(2, 1, 0), floats(2, 5, 4)[:, ::-1].transpose(0, 2, 1)
    (found,) = run(matmul_spec(2, 3, 4, 5), [x, y])
    np.testing.assert_allclose(found, x @ y, rtol=1e-5)


def test_diagonal_and_reversal():
    (i,) = letters("i")
    read = Read("x", 0, (AccessIndex(as_dim(i), 4), AccessIndex(3 - as_dim(i), 4)))
    statement = Statement((i,), (), (), (read,), (Write(0, entries((4,), i), X),))
    x = floats(4, 4)
    (found,) = run(spec_of({"x": (4, 4)}, (4,), {i: 4}, statement), [x])
    np.testing.assert_array_equal(found, np.diag(x[:, ::-1]))


@pytest.mark.parametrize("broadcast", [1, 5])
def test_loose_indices_read_one_element_of_an_axis_of_size_one(broadcast):
    i, j = letters("i j")
    loose = (AccessIndex(as_dim(i), 3), AccessIndex(as_dim(j), broadcast, loose=True))
    reads = (Read("x", 0, loose), Read("y", 1, entries((3, 5), i, j)))
    statement = Statement((i, j), (), (), reads, (Write(0, entries((3, 5), i, j), X - Y),))
    x, y = floats(3, broadcast), floats(3, 5)
    spec = spec_of({"x": (3, broadcast), "y": (3, 5)}, (3, 5), {i: 3, j: 5}, statement)
    np.testing.assert_array_equal(run(spec, [x, y])[0], x - y)


def window_spec(monoid, value, n, window, stride, dilation, pad):
    """Returns the spec of a padded window along one axis; points outside the axis are absent."""
    h, p = letters("h p")
    count = (n + 2 * pad - dilation * (window - 1) - 1) // stride + 1
    index = stride * as_dim(h) + dilation * as_dim(p) - pad
    read = Read("x", 0, (AccessIndex(index, n, inside=False),))
    statement = Statement(
        (h,), (p,), (), (read,), (Write(0, entries((count,), h), value),), (), monoid
    )
    return spec_of({"x": (n,)}, (count,), {h: count, p: window}, statement), count


@pytest.mark.parametrize(
    ("stride", "dilation", "pad"), [(1, 1, 0), (2, 1, 1), (1, 2, 2), (3, 2, 3)]
)
@pytest.mark.parametrize(
    ("monoid", "combine"),
    [("sum", np.sum), ("max", lambda v: np.max(v, initial=-np.inf)), ("mean", np.mean)],
)
def test_windows(monoid, combine, stride, dilation, pad):
    x = floats(9)
    spec, count = window_spec(monoid, X, 9, 3, stride, dilation, pad)
    (found,) = run(spec, [x])
    for h in range(count):
        taps = [stride * h + dilation * p - pad for p in range(3)]
        inside = [x[t] for t in taps if 0 <= t < 9]
        assert found[h] == pytest.approx(combine(inside), rel=1e-5)


def test_absent_points_add_nothing_beside_infinities():
    h, p = letters("h p")
    read = Read("x", 0, (AccessIndex(as_dim(h) + as_dim(p) - 1, 3, inside=False),))
    weights = Read("y", 1, entries((3,), p))
    write = Write(0, entries((3,), h), X * Y)
    statement = Statement((h,), (p,), (), (read, weights), (write,), monoid="sum")
    spec = spec_of({"x": (3,), "y": (3,)}, (3,), {h: 3, p: 3}, statement)
    x, y = np.array([1, 2, 3], "float32"), np.array([np.inf, 1, 1], "float32")
    np.testing.assert_array_equal(run(spec, [x, y])[0], [3, np.inf, np.inf])
    np.testing.assert_allclose(run(spec, [x, np.array([4, 1, 1], "float32")])[0], [3, 9, 11])


def scan_spec(op, monoid, flipped=False):
    i, j = letters("i j")
    sides = (as_dim(i), as_dim(j)) if flipped else (as_dim(j), as_dim(i))
    read = Read("x", 0, entries((2, 4), 0, j))
    read = Read("x", 0, (AccessIndex(0, 1), AccessIndex(as_dim(j), 4)))
    statement = Statement(
        (i,), (j,), (), (read,), (Write(0, entries((4,), i), X),), (Condition(op, *sides),), monoid
    )
    return spec_of({"x": (1, 4)}, (4,), {i: 4, j: 4}, statement), statement, i


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize(("monoid", "combine"), [("sum", np.sum), ("prod", np.prod)])
def test_scans(op, monoid, combine, flipped):
    spec, statement, i = scan_spec(op, monoid, flipped)
    compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[op]
    order = (lambda a, b: compare(b, a)) if flipped else compare
    result = scan_of(spec, statement)
    assert isinstance(result, Scan) and result.target is i
    x = floats(1, 4)
    expected = [combine(x[0, [j for j in range(4) if order(j, k)]]) for k in range(4)]
    np.testing.assert_allclose(run(spec, [x])[0], expected, rtol=1e-5)


def test_a_scan_over_the_linear_index_of_two_index_variables():
    i, a, b = letters("i a b")
    read = Read("x", 0, entries((2, 3), a, b))
    condition = Condition("le", as_dim(a) * 3 + as_dim(b), as_dim(i))
    statement = Statement(
        (i,), (a, b), (), (read,), (Write(0, entries((6,), i), X),), (condition,), "sum"
    )
    spec = spec_of({"x": (2, 3)}, (6,), {i: 6, a: 2, b: 3}, statement)
    assert scan_of(spec, statement) is not None
    x = floats(2, 3)
    np.testing.assert_allclose(run(spec, [x])[0], np.cumsum(x), rtol=1e-5)


def test_a_triangular_reduction_that_is_no_scan():
    i, j = letters("i j")
    read = Read("x", 0, entries((4, 4), i, j))
    condition = Condition("le", as_dim(j), as_dim(i))
    statement = Statement(
        (i,), (j,), (), (read,), (Write(0, entries((4,), i), X),), (condition,), "sum"
    )
    spec = spec_of({"x": (4, 4)}, (4,), {i: 4, j: 4}, statement)
    assert scan_of(spec, statement) is None
    x = floats(4, 4)
    np.testing.assert_allclose(run(spec, [x])[0], np.tril(x).sum(1), rtol=1e-5)


def test_reads_by_data_and_their_absent_points():
    i, j = letters("i j")
    table = (AccessIndex(IDS, 5, inside=False), AccessIndex(as_dim(j), 2))
    reads = (Read("x", 0, table), Read("ids", 1, entries((4,), i)))
    statement = Statement((i, j), (), (), reads, (Write(0, entries((4, 2), i, j), X),))
    spec = spec_of({"x": (5, 2), "ids": (4,)}, (4, 2), {i: 4, j: 2}, statement, fill=-1)
    x, ids = floats(5, 2), np.array([4, 0, 7, -1], "int32")
    np.testing.assert_array_equal(run(spec, [x, ids])[0], [x[4], x[0], [-1, -1], [-1, -1]])


@pytest.mark.parametrize("monoid", ["sum", None, "max"])
def test_scatter_into_a_base(monoid):
    (i,) = letters("i")
    reads = (Read("y", 1, entries((4,), i)), Read("ids", 2, entries((4,), i)))
    write = Write(0, (AccessIndex(IDS, 3, inside=False),), Y, unique=False)
    statement = Statement((i,), (), (), reads, (write,), (), monoid)
    spec = spec_of({"x": (3,), "y": (4,), "ids": (4,)}, (3,), {i: 4}, statement, base=0)
    x, y = np.zeros(3, "float32"), np.array([1, 5, 2, 7], "float32")
    (found,) = run(spec, [x, y, np.array([1, 0, 1, 9])])
    assert found.tolist() == {"sum": [5, 3, 0], None: [5, 2, 0], "max": [5, 2, 0]}[monoid]
    assert x.tolist() == [0, 0, 0]


def test_several_statements_write_one_result():
    i, j = letters("i j")
    first = Statement(
        (i,), (), (), (Read("x", 0, entries((2,), i)),), (Write(0, entries((6,), i), X),)
    )
    moved = Write(0, (AccessIndex(as_dim(j) + 3, 6),), Y)
    second = Statement((j,), (), (), (Read("y", 1, entries((3,), j)),), (moved,))
    spec = spec_of({"x": (2,), "y": (3,)}, (6,), {i: 2, j: 3}, first, second, fill=9)
    x, y = floats(2), floats(3)
    np.testing.assert_array_equal(run(spec, [x, y])[0], [*x, 9, *y])


def test_transposed_windows_accumulate():
    h, p = letters("h p")
    reads = (Read("x", 0, entries((3,), h)), Read("y", 1, entries((2,), p)))
    write = Write(0, (AccessIndex(as_dim(h) + as_dim(p), 4),), X * Y, unique=False)
    statement = Statement((h, p), (), (), reads, (write,), (), "sum")
    spec = spec_of({"x": (3,), "y": (2,)}, (4,), {h: 3, p: 2}, statement)
    x, y = floats(3), floats(2)
    np.testing.assert_allclose(run(spec, [x, y])[0], np.convolve(x, y), rtol=1e-5)


@given(
    st.sampled_from(["sum", "prod", "max", "min", "any", "all"]),
    st.sampled_from(["float32", "float64", "int8", "int32", "uint8", "bool", "float16"]),
    st.integers(0, 3),
    st.integers(0, 4),
)
def test_monoids_keep_dtypes(monoid, dtype, rows, columns):
    i, j = letters("i j")
    read = Read("x", 0, entries((rows, columns), i, j))
    write = Write(0, entries((rows,), i), X)
    statement = Statement((i,), (j,), (), (read,), (write,), (), monoid)
    spec = spec_of({"x": (rows, columns)}, (rows,), {i: rows, j: columns}, statement, dtype=dtype)
    x = np.random.default_rng(1).integers(0, 4, (rows, columns)).astype(dtype)
    (found,) = run(spec, [x])
    assert found.dtype == x.dtype and found.shape == (rows,)
    for row, value in zip(x, found, strict=True):
        if monoid in ("max", "min") and not columns:
            continue
        expected = {"any": np.any, "all": np.all}.get(monoid) or getattr(np, monoid)
        assert value == np.asarray(expected(row)).astype(dtype)


def test_empty_reductions_are_identities():
    i, j = letters("i j")
    for monoid, expected in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)):
        read = Read("x", 0, entries((2, 0), i, j))
        statement = Statement((i,), (j,), (), (read,), (Write(0, entries((2,), i), X),), (), monoid)
        spec = spec_of({"x": (2, 0)}, (2,), {i: 2, j: 0}, statement)
        assert run(spec, [floats(2, 0)])[0].tolist() == [expected, expected]


def test_argmax_returns_the_first_maximum():
    i, j = letters("i j")
    read = Read("x", 0, entries((2, 4), i, j))
    statement = Statement((i,), (j,), (), (read,), (Write(0, entries((2,), i), X),), (), "argmax")
    spec = spec_of({"x": (2, 4)}, (2,), {i: 2, j: 4}, statement, dtype="int64")
    x = np.array([[1, 3, 3, 0], [5, 5, 5, 5]], "float32")
    assert run(spec, [x])[0].tolist() == [1, 0]


def test_narrow_sums_accumulate_in_a_wider_dtype():
    (i,) = letters("i")
    read = Read("x", 0, entries((4096,), i))
    statement = Statement((), (i,), (), (read,), (Write(0, (), X),), (), "sum")
    spec = spec_of({"x": (4096,)}, (), {i: 4096}, statement, dtype="float16")
    (found,) = run(spec, [np.ones(4096, "float16")])
    assert found == 4096 and found.dtype == np.float16  # a float16 sum would stop at 2048


def test_index_variables_and_literals_are_values():
    i, j = letters("i j")
    value = exp(LoopIndex(i) * 0.5) + LoopIndex(j) - ScalarLiteral(1)
    statement = Statement((i, j), (), (), (), (Write(0, entries((2, 3), i, j), value),))
    spec = spec_of({}, (2, 3), {i: 2, j: 3}, statement)
    i_, j_ = np.indices((2, 3))
    np.testing.assert_allclose(run(spec, [])[0], np.exp(i_ * 0.5) + j_ - 1, rtol=1e-6)


def test_an_index_that_is_not_affine():
    (i,) = letters("i")
    read = Read("x", 0, (AccessIndex(as_dim(i) // 2 % 3, 3),))
    statement = Statement((i,), (), (), (read,), (Write(0, entries((12,), i), X),))
    x = floats(3)
    (found,) = run(spec_of({"x": (3,)}, (12,), {i: 12}, statement), [x])
    np.testing.assert_array_equal(found, x[np.arange(12) // 2 % 3])


def test_affine_forms():
    i, j = letters("i j")
    n = sym("n")
    coefficients, rest = affine(n * as_dim(i) + 2 * as_dim(j) - 3, (i, j))
    assert coefficients == {i: n, j: 2} and rest == -3
    assert affine(as_dim(i) * as_dim(j), (i, j)) is None
    assert affine(as_dim(i) // 2, (i,)) is None


def test_affine_forms_are_computed_once_for_equal_calls():
    x = floats(9)
    spec, _ = window_spec("sum", X, 9, 3, 2, 1, 0)
    run(spec, [x])
    before = affine.cache_info()
    run(spec, [x])
    after = affine.cache_info()
    assert after.misses == before.misses


def test_products_are_recognised():
    assert product_of_reads(X * Y * IDS) == ("x", "y", "ids")
    assert product_of_reads(X * X) == ("x", "x")
    assert product_of_reads(X + Y) is None
    assert product_of_reads(X * exp(Y)) is None


@pytest.mark.filterwarnings("ignore")
def test_every_dtype_converts_to_every_other():
    for source in sorted(DTYPES):
        ones = np.array([1, 0, 1], "int8").astype(numpy_dtype(source))
        for dtype in sorted(DTYPES):
            made = convert_dtype(ones, dtype)
            assert made.dtype == numpy_dtype(dtype)
            assert float(made[0]) == 1, (source, dtype)


def test_an_index_one_past_its_axis_is_out_of_bounds():
    index_var = Sym("i")
    space, array = LoopSpace((index_var,), {index_var: 4}, {}), np.ones(4)
    past = (AccessIndex(as_dim(index_var) + 1, 4),)
    found = load(array, Read("x", 0, past), space, {})
    assert found.exists.tolist() == [True, True, True, False]
    assert writeable_view(array, past, space) is None
    assert writeable_view(array, (AccessIndex(as_dim(index_var), 4),), space) is not None
