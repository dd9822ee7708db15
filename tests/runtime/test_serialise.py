"""Stored functions load without lowering, or not at all."""

import json

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError
from structir.runtime import executable
from structir.runtime.executable import options_text
from structir.runtime.files import serialise
from structir.runtime.files.cached_plans import CachedPlans
from structir.system import cache

PROGRAMS = {
    "sizes that usually are equal": (
        """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("k", "m"), "float32")):
    return R.exp(x + y)
""",
        [[(3, 4), (3, 4)], [(3, 4), (1, 4)], [(1, 4), (5, 4)], [(0, 4), (0, 4)]],
    ),
    "tuples and parts of other sizes": (
        """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    a = R.strided_slice(x, axes=[0], begin=[0], end=[n - 1])
    b = R.nn.softmax(R.reshape(x, (m, n)))
    return (R.sum(a, axis=[1]), (b, x))
""",
        [[(3, 4)], [(1, 6)]],
    ),
    "products with constants": (
        """
@R.function
def main(x: R.Tensor(("n", 20), "float32")):
    return R.nn.gelu(R.matmul(x, metadata["w"])) + R.const([1.5], "float32")
""",
        [[(1, 20)], [(37, 20)]],
    ),
    "functions that call each other": (
        """
@I.ir_module
class Module:
    @R.function
    def twice(x: R.Tensor(("a",), "float32")):
        return R.tanh(x) * R.const(2.0, "float32")

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        y = Module.twice(x)
        z = Module.twice(R.concat([y, x], axis=0))
        return R.sum(z)
""",
        [[(5,)], [(1,)]],
    ),
}
WEIGHTS = np.random.default_rng(7).standard_normal((20, 33), np.float32)
cases = pytest.mark.parametrize(("text", "shapes"), PROGRAMS.values(), ids=PROGRAMS)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def parsed(text, filename="<text>"):
    return structir.parse(text, filename, constants={"w": WEIGHTS})


def results(compiled, shapes):
    rng = np.random.default_rng(3)
    return [
        compiled["main"](*[rng.standard_normal(s, np.float32) for s in each]) for each in shapes
    ]


def assert_same(found, expected):
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
    else:
        assert found.shape == expected.shape and found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def forbid_lowering(monkeypatch):
    def lowering(*_):
        raise AssertionError("lowered again")

    monkeypatch.setattr(executable.HostProgram, "whole", lowering)
    monkeypatch.setattr(executable.HostProgram, "function", lowering)


@cases
def test_compiled_again_without_lowering(text, shapes, empty_cache, monkeypatch):
    expected = results(structir.compile(parsed(text)), shapes)
    forbid_lowering(monkeypatch)
    again = structir.compile(parsed(text))
    assert_same(results(again, shapes), expected)
    assert again.source("main").count("# kernel") >= 1
    profile = again.profile(*_first(shapes), repeat=1)
    assert sum(kernel.operations for kernel in profile.kernels) > 0


def _first(shapes):
    return [np.ones(s, np.float32) for s in shapes[0]]


@cases
def test_loaded_without_lowering_or_reading(text, shapes, empty_cache, tmp_path, monkeypatch):
    compiled = structir.compile(parsed(text))
    expected = results(compiled, shapes)
    compiled.save(tmp_path / "model.sir")
    forbid_lowering(monkeypatch)
    loaded = structir.load(tmp_path / "model.sir")
    assert_same(results(loaded, shapes), expected)
    assert callable(loaded._module)  # the text has not been read so far
    assert structir.structural_equal(loaded.module, parsed(text))


def test_mismatches_are_rejected_after_loading(empty_cache):
    text, _ = PROGRAMS["products with constants"]
    structir.compile(parsed(text))
    again = structir.compile(parsed(text))
    with pytest.raises(ShapeMismatchError, match="main: parameter x"):
        again["main"](np.ones((3, 21), np.float32))


def test_another_place_in_the_source_is_another_plan(empty_cache):
    text, _ = PROGRAMS["products with constants"]
    structir.compile(parsed(text, "one.py"))
    other = structir.compile(parsed(text, "two.py"))
    assert "two.py" in other.source() and "one.py" not in other.source()


def test_a_change_of_a_constant_is_seen(empty_cache):
    text, shapes = PROGRAMS["products with constants"]
    structir.compile(parsed(text))
    compiled = structir.compile(structir.parse(text, "<text>", constants={"w": WEIGHTS + 1}))
    (found, *_) = results(compiled, shapes)
    x = np.random.default_rng(3).standard_normal((1, 20), np.float32)
    reference = structir.interpret(compiled.module, "main", x)
    np.testing.assert_allclose(found, reference, rtol=1e-4, atol=1e-4)


LARGE = 80, 64  # weights whose elements no plan depends on
USES = {
    "a product": "R.matmul(x, w)",
    "a product with what is read the other way": "R.matmul(R.reshape(x, (n, 80)), w)",
    "a sum": "R.reshape(x, (n, 80, 1)) + w",
    "a minimum over an axis": "x * R.min(w, axis=[1])",
    "windows": "R.nn.conv2d(R.reshape(x, (n, 1, 8, 10)), R.reshape(w, (80, 1, 8, 8)))",
    "rows that are picked": "R.take(w, R.astype(x, 'int64'), axis=0)",
    "a layer of weights": "R.nn.softmax(R.matmul(x, R.exp(w) * R.const(0.5, 'float32')))",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_large_weights_are_no_part_of_a_plan(use, empty_cache, monkeypatch):
    head = '@R.function\ndef main(x: R.Tensor(("n", 80), "float32")):\n    n = T.int64()\n'
    text = f'{head}    w = metadata["w"]\n    return {use}\n'
    rng = np.random.default_rng(5)
    x = np.abs(rng.standard_normal((3, 80), np.float32))

    def program(weights):
        return structir.parse(text, "<text>", constants={"w": weights})

    structir.compile(program(np.zeros(LARGE, np.float32)))
    forbid_lowering(monkeypatch)
    other = program(rng.standard_normal(LARGE, np.float32))
    found, expected = structir.compile(other)["main"](x), structir.interpret(other, "main", x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def store_of(module):
    return CachedPlans(module, options_text(False, False))  # without exact division


def plans_of(module):
    store = store_of(module)
    return store, cache.store().path(store._key)


def test_damaged_plans_are_thrown_away(empty_cache):
    text, shapes = PROGRAMS["tuples and parts of other sizes"]
    expected = results(structir.compile(parsed(text)), shapes)
    _, path = plans_of(parsed(text))
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:200] + b"?" + whole[201:], b""):
        path.write_bytes(damaged)
        assert_same(results(structir.compile(parsed(text)), shapes), expected)
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", 0),
        ("dims", []),
        ("buffers", [[]]),
        ("functions", [{"name": "main"}]),
        ("texts", 3),
    ],
)
def test_plans_of_another_form_count_as_absent(field, value, empty_cache):
    text, shapes = PROGRAMS["tuples and parts of other sizes"]
    expected = results(structir.compile(parsed(text)), shapes)
    store, _ = plans_of(parsed(text))
    entry = cache.store().read(store._key)
    said = json.loads(entry.data) | {field: value}
    cache.store().write(store._key, cache.CacheEntry(entry.facts, json.dumps(said).encode()))
    assert store_of(parsed(text)).functions() == []
    assert_same(results(structir.compile(parsed(text)), shapes), expected)


def test_circles_in_tables_are_no_sizes():
    said = {"format": serialise.FORMAT, "symbols": [], "atoms": [["floordiv", [0, 0], [0, None]]]}
    said |= {"dims": [[0, [[1, [-1]]]]], "buffers": [], "texts": []}
    region = {"inputs": [], "results": [], "checks": [], "free": [], "doubtful": [0]}
    function = {"name": "main", "params": [], "result": [], "shape": [], "recipes": [], **region}
    with pytest.raises(serialise.NotStoredError):
        serialise.read(said | {"functions": [function]}, lambda _: None)


@cases
def test_estimated_work_is_stored(text, shapes, empty_cache, tmp_path):
    compiled = structir.compile(parsed(text))
    compiled.save(tmp_path / "model.sir")
    found, loaded = [
        [kernel.estimate() for plan in executable.plans() for kernel in plan.texts]
        for executable in (compiled, structir.load(tmp_path / "model.sir"))
    ]
    works = [[(str(w.picoseconds), str(w.rows)) for w in each] for each in (found, loaded)]
    assert works[0] == works[1] and works[0]
