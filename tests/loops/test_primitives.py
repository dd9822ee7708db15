"""Primitives keep the results of kernels, for all sizes, at every step."""

import pytest

from structir import structural_equal
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.loops.primitives import find_primitive, primitive_names
from structir.loops.schedule.loop_tree import loop_tree, prepared
from tests.loops.fuzzing import Run
from tests.loops.running import arguments, parsed, run


@pytest.mark.parametrize("first", range(0, 60, 12))
def test_random_primitives_keep_the_results_of_random_kernels(first: int) -> None:
    for seed in range(first, first + 12):
        Run(seed).go(compiles=seed % 12 == 0)


@pytest.mark.parametrize("name", primitive_names())
def test_each_primitive_has_an_example_that_applies(name: str) -> None:
    primitive = find_primitive(name)
    assert primitive.examples and primitive.__doc__
    for example in primitive.examples:
        kernel = parsed(example.source)
        assert str(primitive(kernel, *example.args, **example.options)) != str(kernel)


def test_partial_results_hold_no_terms_from_outside_of_their_loop() -> None:
    kernel = prepared(
        parsed(
            """
@I.kernel
def f(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor((1,), "float32")):
    t = T.float32(0.0)
    for i in range(n):
        for j in range(m):
            t = T.add_to(t, x[i, j])
        t = T.add_to(t, T.float32(i))
    out[0] = t
"""
        )
    )
    n, m = loop_tree(kernel).kernel.params[0].struct_info.dims
    sizes = {dims.as_sym(n): 3, dims.as_sym(m): 0}
    (result,) = run(find_primitive("rfactor")(kernel, "t", "j"), arguments(kernel, sizes, 0), sizes)
    assert result[0] == 3.0


GUARDED = """
@I.kernel
def f(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    for i in range(n):
        for k in range({bounds}):
            if {test}:
                out[i] = out[i] + {read}
"""


@pytest.mark.parametrize("read", ["x[k - 1]", "x[k - 4]", "x[k]", "x[3 - k]", "x.flat[k - 2]"])
@pytest.mark.parametrize("test", ["k >= 4", "x[0] > 0.0"])
@pytest.mark.parametrize("bounds", ["4", "-2, 3", "3, -3, -1"])
def test_copies_of_guarded_reads_and_prefetches_have_a_text(bounds, test, read) -> None:
    kernel = parsed(GUARDED.format(bounds=bounds, test=test, read=read))
    unrolled = find_primitive("unroll")(kernel, "k")
    hinted = find_primitive("prefetch")(kernel, "x", "k")
    for new in (unrolled, hinted, find_primitive("unroll")(hinted, "k")):
        assert structural_equal(parsed(str(new)), new)


def test_primitives_share_the_index_of_loops_and_accesses() -> None:
    softmax = parsed(
        """
@I.kernel
def softmax(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
    for i in range(n):
        top = T.float32(-1e30)
        for j1 in range(m):
            top = T.maximum(top, x[i, j1])
        total = T.float32(0.0)
        for j2 in range(m):
            out[i, j2] = T.exp(x[i, j2] - top)
        for j3 in range(m):
            total = total + out[i, j3]
        for j4 in range(m):
            out[i, j4] = out[i, j4] / total
"""
    )
    steps = [("vectorise", "j4"), ("fuse", "j2", "j3"), ("split", "j1", 8), ("parallel", "i")]
    kernel = prepared(softmax)
    facts = loop_tree(kernel).facts
    for name, *args in steps:
        kernel = find_primitive(name)(kernel, *args)
        assert loop_tree(kernel).facts is facts
        assert loop_tree(kernel) is loop_tree(prepared(kernel))


INDEXED = """
@I.kernel
def f(at: R.Tensor(("n",), "int64"), x: R.Tensor(("n",), "float32"),
      out: R.Tensor(("m",), "float32")):
    for i in range(n):
        t = VALUE
        out[i + t] = x[i]
"""


@pytest.mark.parametrize("value", ["at[i]", "T.int64(x[0])", "t0 * 2"])
def test_an_assigned_number_is_no_index(value: str) -> None:
    source = INDEXED.replace("VALUE", value)
    if "t0" in value:  # another value in each iteration
        source = source.replace("    for", "    t0 = T.int64(0)\n    for") + "        t0 = t0 - 1\n"
    with pytest.raises(DiagnosticError, match="depend on each other"):
        find_primitive("vectorise")(parsed(source), "i")


@pytest.mark.parametrize("value", ["i * 3 + 1", "n", "2"])
def test_a_number_assigned_once_from_loops_and_sizes_is_an_index(value: str) -> None:
    kernel = parsed(INDEXED.replace("VALUE", value))
    assert "T.vectorized(n)" in str(find_primitive("vectorise")(kernel, "i"))
