"""Inference through branches, tuples of values without shapes, and axes with labels."""

import numpy as np
import pytest

import structir
from structir.ir import structural_equal

SIZES_AFTER_A_BRANCH = """
@R.function
def main(
    x: R.Tensor(("n * m", "m"), "float32"),
    y: R.Tensor(("n",), "float32"),
    z: R.Tensor(("m",), "float32"),
    w: R.Tensor(("q",), "float32"),
):
    n = T.int64()
    q = T.int64()
    if R.const(True, "bool"):
        v = w
    else:
        R.require("n == 3")
        u = R.linalg.svd(x, full_matrices=True)
        v = w
    return v, R.match_cast(x, R.Tensor((T.max(q - 1, 0), m), "float32"))
"""


def require_idempotent(text: str) -> str:
    completed = structir.infer(structir.parse(text))
    assert structural_equal(structir.infer(completed), completed)
    script: str = completed.script()
    assert structural_equal(structir.parse(script), completed)
    return script


def test_sizes_found_after_branches_hold_in_their_result() -> None:
    script = require_idempotent("""
@R.function
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
    if R.const(True, "bool"):
        z = x
    else:
        z = y
    return z, R.reshape(x, (1,)), R.reshape(y, (1,))
""")
    assert "ndim=1" not in script


@pytest.mark.filterwarnings("ignore")
def test_sizes_found_after_branches_hold_inside_them() -> None:
    require_idempotent(SIZES_AFTER_A_BRANCH)


def test_results_of_branches_are_joined_by_their_position() -> None:
    text = """
@R.function
def main(flag: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32"), y: R.Tensor((4,), "float32")):
    coarse: R.Tuple(R.Object, R.Tensor((2, 3), "float32"), R.Tensor((4,), "float32"))
    coarse = (x, x, y)
    fields: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor, R.Object)
    fields = (x, y, y)
    if flag:
        z = coarse
    else:
        z = fields
    return z[1]
"""
    module = structir.parse(text)
    completed = structir.infer(module)
    x, y = np.ones((2, 3), "float32"), np.ones(4, "float32")
    for flag in (True, False):
        arguments = np.array(flag), x, y
        expected = structir.interpret(module, "main", *arguments)
        np.testing.assert_array_equal(structir.interpret(completed, "main", *arguments), expected)


def test_sizes_are_inferred_through_calls_with_parameters_of_any_kind() -> None:
    script = require_idempotent("""
@I.ir_module
class Module:
    @R.function(private=True)
    def f(
        a: R.Object,
        b: R.Tensor(("n", 3), "float32"),
        c: R.Tuple(R.Object, R.Tensor(("n",), "float32")),
    ):
        return R.sum(b, axis=[1])
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor(dtype="float32", ndim=2)):
        return Module.f(x, y, (y, x))
""")
    main = script[script.index("def main") :].partition("\n")[0]
    assert 'y: R.Tensor((2, 3), dtype="float32")' in main
    assert '-> R.Tensor((2,), dtype="float32")' in main


@pytest.mark.parametrize("kind", ["local", "private", "kernel"])
def test_a_label_belongs_to_an_axis_and_not_to_its_size(kind: str) -> None:
    callee = {
        "local": """
        @R.function
        def f(p: R.Tensor(("n",), "float32"), q: R.Tensor(("n:rows",), "float32")):
            return p
        y = f(x, z)
""",
        "private": "        y = Module.g(x, z)\n",
        "kernel": """
        y = R.call_kernel(Module.k, (x, z), out_sinfo=R.Tensor((n,), "float32"))
""",
    }[kind]
    script = require_idempotent(f"""
@I.ir_module
class Module:
    @I.kernel
    def k(
        a: R.Tensor(("n",), "float32"),
        b: R.Tensor(("n",), "float32"),
        out: R.Tensor(("n",), "float32"),
    ):
        for i in range(n):
            out[i] = a[i] + b[i]
    @R.function(private=True)
    def g(p: R.Tensor(("n",), "float32"), q: R.Tensor(("n",), "float32")):
        return p
    @R.function
    def main(x: R.Tensor(("n",), "float32"), z: R.Tensor(("n:rows",), "float32")):
        n = T.int64()
{callee}        return y
""")
    main = script[script.index("def main") :]
    assert 'x: R.Tensor(("n",), dtype="float32")' in main
    assert '-> R.Tensor(("n",), dtype="float32")' in main.partition("\n")[0]


def test_a_result_of_a_call_has_the_label_of_the_argument_that_it_is() -> None:
    script = require_idempotent("""
@I.ir_module
class Module:
    @R.function(private=True)
    def g(p: R.Tensor(("n",), "float32"), q: R.Tensor(("n",), "float32")):
        return R.exp(p)
    @R.function
    def main(x: R.Tensor(("n:rows",), "float32"), z: R.Tensor(("n",), "float32")):
        return Module.g(x, z), Module.g(z, x)
""")
    result = script[script.index("def main") :].partition("-> ")[2].partition("\n")[0]
    assert result.startswith('R.Tuple(R.Tensor(("n:rows",)'), result
    assert result.count("rows") == 1


def test_a_label_remains_where_a_size_becomes_a_number() -> None:
    script = require_idempotent("""
@R.function
def main(x: R.Tensor(("n:rows", "m:columns"), "float32"), y: R.Tensor((2, 2), "float32")):
    @R.function
    def step(state: R.Tensor((2, 2), "float32"), item: R.Tensor((2,), "float32")):
        return (state, x)
    z = R.scan(step, (y,), y)
    w = R.match_cast(x, R.Tensor((1, m), "float32"))
    return z, w
""")
    assert '(2, "1:rows", "m:columns")' in script


def test_computed_sizes_may_be_0_in_a_program_with_labels() -> None:
    require_idempotent("""
@I.ir_module
class Module:
    @R.function(private=True)
    def tail(x: R.Tensor(("m",), "float32"), y: R.Tensor(("k:rows",), "float32")):
        m = T.int64()
        z = R.strided_slice(x, begin=(m,), end=(-1,), axes=[-1])
        return R.match_cast(z, R.Tensor((T.max(-m + T.min(m, T.max(m - 1, 0)), 0),), "float32"))
    @R.function
    def main(y: R.Tensor(("k:rows",), "float32")):
        return Module.tail(R.const([1.0, 2.0], "float32"), y)
""")


def test_axes_of_a_branch_keep_their_labels_where_sizes_become_equal() -> None:
    script = require_idempotent("""
@R.function
def main(x: R.Tensor(("n:rows", "m:columns"), "float32"), y: R.Tensor(("n", "k"), "float32")):
    if R.const(False, "bool"):
        z = x
    else:
        z = x
    w = R.match_cast(y, R.Tensor((m, k), "float32"))
    return z
""")
    assert '-> R.Tensor(("n:rows", "n:columns")' in script


@pytest.mark.parametrize(
    ("x", "value"),
    [
        ('("k:a", "k:b")', "R.broadcast_to(x, (k, k))"),
        ('("n:a", "k:b")', "R.broadcast_to(x, (k, n))"),
        ('("n:a", "k")', "R.reshape(x, (k, n)) + w"),
        ('("n:a", "k")', "(x + R.zeros((n, k), 'float32'), w + R.zeros((k, n), 'float32'))"),
    ],
)
def test_sizes_of_a_shape_argument_do_not_share_labels(x: str, value: str) -> None:
    require_idempotent(f"""
@R.function
def main(x: R.Tensor({x}, "float32"), w: R.Tensor(("k", "n:c"), "float32")):
    k = T.int64()
    n = T.int64()
    return {value}
""")
