"""State and donated arguments: updates in place, with the results of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.errors import ShapeMismatchError, StructIRError, WellFormedError

CACHE = """
@I.ir_module
class Module:
    @R.function
    def initial():
        return R.zeros((2, 8, 4), "float32"), R.const(0, "int64")

    @R.function
    def main(x: R.Tensor((2, 1, 4), "float32"), p: R.Tensor((1,), "int64"),
             cache: R.Tensor((2, 8, 4), "float32"), n: R.Tensor((), "int64")):
        R.func_attr({"state": {"layer.k": ("cache", 1), "n": ("n", 2)},
                     "initial_state": "initial"})
        rows = R.permute_dims(cache, [1, 0, 2])
        new = R.index_put(rows, (p,), R.permute_dims(x, [1, 0, 2]))
        k = R.permute_dims(new, [1, 0, 2])
        return R.sum(R.multiply(k, x)), k, R.add(n, R.const(1, "int64"))

    @R.function
    def reading(cache: R.Tensor((2, 8, 4), "float32")):
        R.func_attr({"state": {"layer.k": ("cache", 1)}})
        return R.sum(cache), cache
"""
# bodies over (x, p, k): the results are a value and the new k
UPDATES = {
    "rows": "new = R.index_put(k, (p,), x)\n    y = R.sum(new, axis=[1])",
    "old value": "y = R.sum(k)\n    new = R.index_put(k, (p,), x)",
    "old value, read later": "new = R.index_put(k, (p,), x)\n    y = R.exp(k)",
    "old and new": "new = R.index_put(k, (p,), x)\n    y = R.subtract(new, k)",
    "from itself": "new = R.index_put(k, (p,), R.add(x, R.strided_slice(k, begin=(1,), end=(2,), "
    "axes=[0])))\n    y = R.sum(new)",
    "twice": "mid = R.index_put(k, (p,), x)\n    q = R.subtract(R.const([5], 'int64'), p)\n"
    "    new = R.index_put(mid, (q,), R.negative(x))\n    y = R.sum(new)",
    "twice, read between": "mid = R.index_put(k, (p,), x)\n    y = R.sum(mid, axis=[0])\n"
    "    new = R.index_put(mid, (p,), R.negative(x))",
    "pointwise": "new = R.add(R.multiply(k, R.const(0.5, 'float32')), x)\n    y = R.sum(new)",
    "shifted": "new = R.concat((R.strided_slice(k, begin=(1,), end=(6,), axes=[0]), x), axis=0)"
    "\n    y = R.sum(new)",
    "reversed": "new = R.add(R.flip(k, axis=0), x)\n    y = R.sum(k)",
    "sorted": "new = R.sort(k, axis=0)\n    y = R.sum(k)",
    "same": "new = k\n    y = R.sum(k)",
    "other": "new = R.broadcast_to(x, (6, 3))\n    y = R.sum(k)",
    "the new value twice": "new = R.index_put(k, (p,), x)\n    y = new",
    "a view of the new value": "new = R.index_put(k, (p,), x)\n    y = R.reshape(new, (2, 9))",
    "the old value, too": "new = R.index_put(k, (p,), x)\n    y = k",
    "added": "new = R.index_put(k, (p,), x, accumulate=True)\n    y = R.sum(new)",
    "slice": "new = R.slice_scatter(k, x, 1, 2, 1, axis=0)\n    y = R.sum(new, axis=[1])",
}
IN_PLACE = {"rows", "old value", "old value, read later", "twice", "pointwise", "same", "slice"}
IN_PLACE |= {"the new value twice", "a view of the new value", "added"}


def update(name: str, attribute: str) -> structir.ir.IRModule:
    return structir.parse(f"""
@R.function
def main(x: R.Tensor((1, 3), "float32"), p: R.Tensor((1,), "int64"),
         k: R.Tensor((6, 3), "float32")):
    R.func_attr({{{attribute}}})
    {UPDATES[name]}
    return y, new
""")


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def inputs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((1, 3)).astype("float32"), rng.integers(0, 6, 1)


@pytest.mark.parametrize("name", UPDATES)
def test_states_equal_those_of_the_interpreter(name: str) -> None:
    module = update(name, '"state": {"k": ("k", 1)}')
    exe, rng = structir.compile(module), np.random.default_rng(0)
    states = [exe.state, structir.State(module)]
    initial = rng.standard_normal((6, 3)).astype("float32")
    for state in states:
        state.buffers["k"] = initial
    before = address(states[0].buffers["k"])
    for _ in range(4):
        x, p = inputs(rng)
        actual, expected = (np.array(state["main"](x, p)) for state in states)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(*[s.buffers["k"] for s in states], rtol=1e-6, atol=1e-6)
        if name in IN_PLACE:
            assert address(states[0].buffers["k"]) == before
    x, p = inputs(rng)
    argument = initial.copy()
    exe["main"](x, p, argument)  # a call without a handle overwrites nothing
    np.testing.assert_array_equal(argument, initial)


@pytest.mark.parametrize("name", UPDATES)
def test_results_take_the_memory_of_donated_arguments(name: str) -> None:
    plain = structir.compile(update(name, ""))["main"]
    donating = structir.compile(update(name, '"donated": {"k": 1}'))["main"]
    rng = np.random.default_rng(1)
    (x, p), k = inputs(rng), rng.standard_normal((6, 3)).astype("float32")
    expected, start = plain(x, p, k), address(k)
    actual = donating(x, p, k)
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
    assert (address(actual[1]) == start) >= (name in IN_PLACE)
    assert not np.may_share_memory(actual[0], actual[1])


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(-3, 3)), max_size=6))
def test_a_cache_holds_the_rows_written_to_it(steps: list[tuple[int, int]]) -> None:
    state, expected = COMPILED.new_state(), np.zeros((2, 8, 4), "float32")
    start = address(state.buffers["layer.k"])
    for position, value in steps:
        x = np.full((2, 1, 4), value, "float32")
        expected[:, position] = value
        assert state["main"](x, np.array([position])) == (expected * value).sum()
    np.testing.assert_array_equal(state.buffers["layer.k"], expected)
    assert (state.buffers["n"], address(state.buffers["layer.k"])) == (len(steps), start)
    assert state["reading"]() == expected.sum()
    state.reset()
    assert not state.buffers["layer.k"].any() and state.buffers["n"] == 0


COMPILED = structir.compile(structir.parse(CACHE))


def test_handles_are_independent_and_buffers_are_set(tmp_path) -> None:
    COMPILED.save(tmp_path / "cache.sirx")
    for exe in (COMPILED, structir.load(tmp_path / "cache.sirx")):
        first, second = exe.new_state(), exe.new_state()
        first["main"](np.ones((2, 1, 4), "float32"), np.array([0]))
        assert (first.buffers["n"], second.buffers["n"]) == (1, 0)
        second.buffers["n"] = 7
        second["main"](np.ones((2, 1, 4), "float32"), np.array([0]))
        assert (first.buffers["n"], second.buffers["n"]) == (1, 8)
        assert list(first.buffers) == ["layer.k", "n"]
        assert exe.state is exe.state
        with pytest.raises(ValueError, match="read-only"):
            first.buffers["n"][...] = 3
        with pytest.raises(ShapeMismatchError, match=r"state layer.k: axis 0: expected 2"):
            first.buffers["layer.k"] = np.zeros((3, 8, 4), "float32")
        with pytest.raises(StructIRError, match=r"expected one of layer.k, n, found 'k'"):
            first.buffers["k"]
        with pytest.raises(StructIRError, match="main: expected 2 arguments, found 0"):
            first["main"]()


def test_functions_with_branches_keep_their_state() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor((), "int64"), n: R.Tensor((), "int64")):
    R.func_attr({"state": {"n": ("n", 1)}})
    if R.greater(x, n):
        m = R.add(n, x)
    else:
        m = R.negative(n)
    return R.add(m, x), m
""")
    states = [structir.compile(module).state, structir.State(module)]
    for state in states:
        state.buffers["n"] = 1
    for x in (3, 2, 9, 9):
        assert states[0]["main"](x) == states[1]["main"](x)
        assert states[0].buffers["n"] == states[1].buffers["n"]


def test_a_region_that_overwrites_its_input_leaves_values_of_its_caller() -> None:
    module = structir.parse("""
@I.ir_module
class Module:
    @R.function
    def push(k: R.Tensor((6,), "float32"), x: R.Tensor((1,), "float32")):
        R.func_attr({"donated": {"k": 0}})
        return R.index_put(k, (R.const([2], "int64"),), x)

    @R.function
    def main(k: R.Tensor((6,), "float32"), x: R.Tensor((1,), "float32")):
        if R.greater(R.sum(x), R.const(0.0, "float32")):
            y = cls.push(k, x)
        else:
            y = cls.push(R.exp(k), x)
        return R.subtract(y, k)
""")
    run, k = structir.compile(module)["main"], np.arange(6, dtype="float32")
    for value in (5.0, 6.0, -1.0, 7.0):
        x = np.array([value], "float32")
        np.testing.assert_allclose(run(k, x), structir.interpret(module, "main", k, x), rtol=1e-6)
    np.testing.assert_array_equal(k, np.arange(6))


@pytest.mark.parametrize("compiled", [True, False])
def test_unsuitable_donated_arguments_are_rejected(compiled: bool) -> None:
    module = update("rows", '"donated": {"k": 1}')
    run = structir.compile(module)["main"]
    if not compiled:
        run = lambda *args: structir.interpret(module, "main", *args)  # noqa: E731
    x, p, k = np.ones((1, 3), "float32"), np.array([1]), np.ones((6, 3), "float32")
    locked = k.copy()
    locked.flags.writeable = False
    wide = np.ones((6, 6), "float32")
    cases = {"a read-only array": locked, "a view that is not dense": wide[:, ::2]}
    cases["list"] = k.tolist()
    for text, array in cases.items():
        with pytest.raises(ShapeMismatchError, match=f"donated parameter k: .*found {text}"):
            run(x, p, array)
    with pytest.raises(ShapeMismatchError, match="expected an array of its own, found memory"):
        run(k[:1], p, k)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ('"donated": {"y": 1}', "expected one of the tensor parameters x, p, k, found 'y'"),
        ('"donated": {"k": 2}', "k: expected the index of one of 2 results, found 2"),
        ('"donated": {"x": 1}', "x: expected result 1 as "),
        ('"donated": 1', "donated: expected a dict, found 1"),
        ('"state": {"k": "k"}', "state: k: expected a parameter and a result, found 'k'"),
        ('"state": {"k": 1}', r'help: write `R.func_attr\({"state": {"k": \("k", 1\)}}\)`'),
        ('"state": 1', r'help: name states.*R.func_attr\({"state": {"cache": \("cache", 1\)}}\)'),
        ('"state": {"a": ("k", 1), "b": ("k", 1)}', "expected parameter k once"),
        ('"initial_state": "first"', "expected a function of the module without parameters"),
    ],
)
def test_invalid_attributes_are_reported(attribute: str, text: str) -> None:
    with pytest.raises(WellFormedError, match=text):
        structir.compile(update("rows", attribute))


def test_a_module_without_state_has_no_handle() -> None:
    with pytest.raises(StructIRError, match="found no function with the attribute 'state'"):
        _ = structir.compile(update("rows", "")).state
