"""Ops over whole axes have kernels, for any dtype and for all sizes."""

from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError
from tests.runtime.agreement import assert_agree

pytestmark = pytest.mark.sampled(2)

ORDERED = """
@R.function
def main(x: R.Tensor(("n", "m", 3), "{dtype}"), edges: R.Tensor(("k",), "{dtype}")):
    with R.dataflow():
        s = R.sort(R.add(x, x), axis=1, descending=True)
        p = R.argsort(s, axis=0)
        t = R.topk(x, k=2, axis=2)
        m = R.median(x, axis=[0, 2])
        w = R.median(x, axis=-1, keepdims=True)
        b = R.bucketize(s, edges, right=True)
        result = (s, p, t, m, w, b)
        R.output(result)
    return result
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["float16"])
def test_whole_axes_are_seen_in_the_midst_of_a_region(dtype):
    module = structir.parse(ORDERED.format(dtype=dtype))
    executable = structir.compile(module)
    assert "main" in executable.direct  # one region: nothing is left to the host
    count = executable.kernel_count
    rng = np.random.default_rng(3)
    for shape in [(4, 5, 3), (1, 1, 3), (2, 33, 3)]:
        x = rng.integers(0, 7, shape).astype(dtype)
        edges = np.array([1, 4, 4, 6], dtype)
        wanted = structir.interpret(module, "main", x, edges)
        assert_agree(wanted, executable["main"](x[..., ::-1][..., ::-1], edges))
    assert executable.kernel_count == count


def test_nan_is_the_greatest():
    module = structir.parse(ORDERED.format(dtype="float32"))
    x = np.array([[[1, np.nan, 0], [np.nan, 2, 2], [0, 1, np.nan]]], "float32")
    edges = np.array([0.5, 2.0, np.nan], "float32")
    wanted = structir.interpret(module, "main", x, edges)
    assert_agree(wanted, structir.compile(module)["main"](x, edges))


@pytest.mark.parametrize("edges", [[1, 0], [0, np.nan, 1], [np.nan, 0]])
def test_a_rejected_routine_call_is_a_diagnostic(edges):
    module = structir.parse(ORDERED.format(dtype="float32"))
    x, edges = np.zeros((2, 2, 3), "float32"), np.array(edges, "float32")
    for run in (
        structir.compile(module)["main"],
        lambda *a: structir.interpret(module, "main", *a),
    ):
        with pytest.raises(ShapeMismatchError, match=r"^bucketize.*: expected ascending numbers"):
            run(x, edges)


F = "float32"
REJECTED = {
    "linalg.solve": ("R.linalg.solve(x, x)", np.zeros((2, 2), F)),
    "linalg.cholesky": ("R.linalg.cholesky(x)", -np.eye(2, dtype=F)),
    "median": ("R.median(x, axis=1)", np.zeros((2, 0), F)),
    "nn.nll_loss": ("R.nn.nll_loss(R.zeros((2, 3), 'float32'), x)", np.array([0, 7])),
    "multinomial_from_uniform": (
        "R.multinomial_from_uniform(R.ones((2, 3), 'float32'), R.zeros((2, 1), 'float32'), x)",
        np.array([[0], [5]]),
    ),
    "vision.roi_align": (
        "R.vision.roi_align(R.zeros((1, 1, 4, 4), 'float32'), x, (2, 2), 1.0)",
        np.array([[3, 0, 0, 1, 1]], F),
    ),
    "vision.roi_pool": (
        "R.vision.roi_pool(R.zeros((1, 1, 4, 4), 'float32'), x, (2, 2), 1.0)",
        np.array([[-3, 0, 0, 1, 1]], F),
    ),
}


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("op", REJECTED)
def test_a_rejected_value_has_the_message_of_the_interpreter(op, is_loaded, tmp_path):
    """The compiled error has the reason of the interpreter, and the location of the call."""
    call, x = REJECTED[op]
    shape = ", ".join(f'"n{k}"' for k in range(x.ndim))
    text = f'@R.function\ndef main(x: R.Tensor(({shape},), "{x.dtype}")):\n    return {call}\n'
    module = structir.parse(text, "rejected.py")
    with pytest.raises(ShapeMismatchError) as interpreted:
        structir.interpret(module, "main", x)
    executable = structir.compile(module)
    if is_loaded:
        executable.save(tmp_path / "rejected.sir")
        executable = structir.load(tmp_path / "rejected.sir")
    with pytest.raises(ShapeMismatchError) as compiled:
        executable["main"](x)
    reason = str(interpreted.value).partition(": ")[2]
    assert ": expected " in reason
    assert ", found " in reason
    assert str(compiled.value).endswith(reason)
    file = "rejected.sir" if is_loaded else "rejected.py:3"
    assert f"{file}:" in str(compiled.value)


Array = Any
MESSAGES = ('expected values in [0, 1], found "others"', r"expected 'a' \ b [E0700], found others")


@structir.op("x[[n]] -> y[[n]]", name="test.at_least_0")
def at_least_0(x: Array, message: int = 0) -> Array:
    """Rejects negative numbers."""
    return x


@at_least_0.reference
def _(x, message=0):
    if (x < 0).any():
        raise ValueError(MESSAGES[message])
    return x


@at_least_0.kernel("cpu")
def _(x, y):
    for k in range(x.shape[0]):
        if x[k] < 0:
            raise ValueError("a message that is not declared")
        y[k] = x[k]


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("declared", [{}, {"code": "E0731"}, {"hint": "pass `R.abs(x)`"}])
@pytest.mark.parametrize("message", range(len(MESSAGES)))
def test_an_op_of_another_package_declares_its_message(message, declared, is_loaded, tmp_path):
    at_least_0.rejects_values(MESSAGES[message], **declared)
    text = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n'
    module = structir.parse(f"{text}    return R.test.at_least_0(x, message={message})\n", "m.py")
    errors, x = list[ShapeMismatchError](), np.array([1, -1], "float32")
    executable = structir.compile(module)
    if is_loaded:
        executable.save(tmp_path / "m.sir")
        executable = structir.load(tmp_path / "m.sir")
    for run in (executable["main"], lambda x: structir.interpret(module, "main", x)):
        with pytest.raises(ShapeMismatchError) as error:
            run(x)
        errors.append(error.value)
    compiled, interpreted = errors
    assert compiled.code == interpreted.code == declared.get("code", "E0700")
    reasons = [e.message.partition(": ")[2] for e in errors]
    hint = "\nhelp: pass `R.abs(x)`" if "hint" in declared else ""
    assert reasons == [f"{MESSAGES[message]}{hint}"] * 2


def test_an_op_without_a_declared_message_has_a_general_one():
    at_least_0.rejects_values()
    text = '@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n'
    module = structir.parse(f"{text}    return R.test.at_least_0(x)\n")
    with pytest.raises(ShapeMismatchError, match=r"at_least_0 .*: expected operands within"):
        structir.compile(module)["main"](np.array([-1], "float32"))


@pytest.mark.parametrize(("k", "largest"), [(1, True), (8, False), (70, True)])
def test_the_first_of_many_keep_their_order(k, largest):
    module = structir.parse(
        f"""
@R.function
def main(x: R.Tensor(("n", 290), "float32")):
    return R.topk(x, k={k}, largest={largest})
"""
    )
    executable = structir.compile(module)
    rng = np.random.default_rng(k)
    for rows in (1, 5):
        x = rng.integers(0, 40, (rows, 290)).astype("float32")
        x[rng.random(x.shape) < 0.02] = np.nan
        assert_agree(structir.interpret(module, "main", x), executable["main"](x))


def test_the_greatest_of_a_few_small_axes_at_once():
    """Around these loops, which LLVM writes out, another one kept it busy for good."""
    module = structir.parse("""
@R.function
def main(x: R.Tensor((2, 3, 3), "float32"), y: R.Tensor((1, 2, 6, 5), "float32")):
    with R.dataflow():
        pooled = R.nn.avg_pool2d(y, pool_size=[3], strides=[2], padding=[1])
        result = (R.argmax(x), R.argmin(x, keepdims=True), R.argmax(pooled))
        R.output(result)
    return result
""")
    rng = np.random.default_rng(5)
    given = [rng.standard_normal(shape).astype("float32") for shape in [(2, 3, 3), (1, 2, 6, 5)]]
    assert_agree(
        structir.interpret(module, "main", *given), structir.compile(module)["main"](*given)
    )
