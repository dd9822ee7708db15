"""Contents of cache entries and saved executables: whatever they hold, none of it is executed as
Python, and the only errors are StructIR's."""

import copy
import json
import warnings
from random import Random

import numpy as np
import pytest

import structir
from structir.backend import cache, sizes, stored
from structir.backend.cached_plans import CachedPlans
from structir.backend.cpu import kernels, objects
from structir.backend.executable import options_text
from structir.backend.loops.writer import MissingCodeError
from structir.errors import DiagnosticWarning, StructIRError
from structir.interpret.out_of_memory import within_memory
from structir.ir import dims
from structir.ir.polynomial import opaque_atom
from structir.printer.files.safetensors_file import mapped_file, write_file

TEXT = """
@R.function
def main(x: R.Tensor(("n", 6), "float32"), y: R.Tensor(("k", 6), "float32")):
    z = R.nn.softmax(R.matmul(x + y, metadata["w"]))
    return (z, R.strided_slice(z, axes=[0], begin=[0], end=[T.max(1, 3)]))
"""
WEIGHTS = np.random.default_rng(0).standard_normal((6, 4), np.float32)
X = np.random.default_rng(1).standard_normal((5, 6), np.float32)


def model():
    return structir.parse(TEXT, "<text>", constants={"w": WEIGHTS})


@pytest.fixture
def marker(tmp_path):
    """A directory that planted code makes."""
    path = tmp_path / "executed"
    yield path
    assert not path.exists()


@pytest.fixture
def plans(tmp_path, monkeypatch):
    """The stored plans of the model in a cache of their own, and what replaces them."""
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path / "cache"))
    structir.compile(model())
    key = CachedPlans(model(), options_text(False, False))._key
    entry = cache.store().read(key)

    def plant(said):
        data = said if isinstance(said, bytes) else json.dumps(said).encode()
        cache.store().write(key, cache.CacheEntry(entry.facts, data))

    return json.loads(entry.data), plant


def check(executable):
    for y in (X, X[:1]):  # the usual form, and the general one
        found = executable["main"](X, y)
        expected = structir.interpret(model(), "main", X, y)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def code_for(marker):
    return f"__import__('os').mkdir({str(marker)!r})"


def in_coefficients(said, code):
    for dim in said["dims"]:
        if isinstance(dim, list):
            dim[1] = [[code, atoms] for _, atoms in dim[1]]


def in_constants(said, code):
    said["dims"] = [[code, d[1]] if isinstance(d, list) else code for d in said["dims"]]


def in_functions_of_sizes(said, code):
    said["atoms"] = [[f"{code} or max", args, bounds] for _, args, bounds in said["atoms"]]


def in_defaults(said, code):
    said["texts"] = [t.replace("lo, hi):", f"lo, hi, q={code}):") for t in said["texts"]]


def in_decorators(said, code):
    said["texts"] = [f"@(lambda f: {code})\n{text}" for text in said["texts"]]


def in_bodies(said, code):
    said["texts"] = [f"{text}    {code}\n" for text in said["texts"]]


def before_kernels(said, code):
    said["texts"] = [f"{code}\n{text}" for text in said["texts"]]


PLANTED = [
    in_coefficients, in_constants, in_functions_of_sizes, in_defaults, in_decorators, in_bodies,
    before_kernels,
]  # fmt: skip
ways = pytest.mark.parametrize("way", PLANTED, ids=[w.__name__ for w in PLANTED])


@ways
def test_code_in_a_stored_plan_of_the_cache_is_not_executed(way, plans, marker):
    said, plant = plans
    assert said["atoms"] and any(isinstance(d, list) for d in said["dims"])
    before = copy.deepcopy(said)
    way(said, code_for(marker))
    assert said != before
    plant(said)
    check(structir.compile(model()))


@ways
def test_code_in_a_saved_executable_is_not_executed(way, plans, marker, tmp_path):
    path = tmp_path / "model.sir"
    structir.compile(model()).save(path)
    change_plans(path, lambda said: way(said, code_for(marker)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        check(structir.load(path))


def change_plans(path, change):
    """Changes the plans in a file, under a checksum that is right."""
    arrays, facts = mapped_file(path)
    (name,) = [n for n in arrays if n.startswith("plans ")]
    key = name.removeprefix("plans ")
    said = json.loads(cache.unpacked(key, arrays[name].tobytes()).data)
    changed = change(said)
    said = said if changed is None else changed
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    arrays[name] = np.frombuffer(cache.packed(key, cache.CacheEntry({}, data)), np.uint8)
    write_file(arrays, facts, path)


def forget_machine_code(monkeypatch):
    """As if another process had written the plans, and machine code had left the cache."""
    monkeypatch.setattr(kernels, "_kernels", {})
    monkeypatch.setattr(objects, "_offered", {})
    for path in cache.store().root.glob("*/*.entry"):
        if b'"kind": "object"' in path.read_bytes():
            path.unlink()


def test_a_plan_without_machine_code_is_lowered_from_the_program(plans, monkeypatch):
    forget_machine_code(monkeypatch)
    (function,) = CachedPlans(model(), options_text(False, False)).functions()
    with pytest.raises(MissingCodeError):
        function.region.prepare()
    check(structir.compile(model()))


def test_a_form_without_machine_code_is_lowered_from_the_program(plans, monkeypatch):
    executable = structir.compile(model())
    region = executable.direct["main"].region
    forget_machine_code(monkeypatch)  # of the general form, which no call has needed so far
    check(executable)
    check(executable)
    assert len(executable.plans()) == 2 and region._lowered is not None


def test_generated_code_calls_no_unknown_function():
    size = dims.sym("n")
    evil = dims.as_dim(opaque_atom("print", (size,), (0, None)))
    with pytest.raises(ValueError, match="no function of sizes"):
        dims.python_text(evil)
    evaluate = sizes.Evaluator([size * 2, 7, dims.dim_max(size, 3)], sizes.symbols_of([size]))
    assert [evaluate([n]).tolist() for n in (5, 1)] == [[10, 7, 5], [2, 7, 3]]


# mutations

VALUES = [
    None, True, -1, 0, 1, 2, 7, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, -(1 << 70), 1.5, "", [],
    [[]], {}, {"dim": 0}, "floordiv", "select", "float32", "input", "\ud800", "\0",
]  # fmt: skip


def paths_in(said, path=()):
    items = said.items() if isinstance(said, dict) else enumerate(said)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths_in(value, (*path, key))


def mutated(said, rng, code):
    said = copy.deepcopy(said)
    *way, last = rng.choice(list(paths_in(said)))
    at = said
    for key in way:
        at = at[key]
    how = rng.randrange(4)
    if how == 0 and isinstance(at, list):
        at.pop(last)
    elif how == 1 and type(at[last]) is int:
        at[last] += rng.choice([-1, 1, 5])
    elif how == 2:
        at[last] = code
    else:
        at[last] = rng.choice(VALUES)
    return said


def used(functions):
    """What calls do with a plan before its kernels run; whether there was one."""
    for function in functions:
        region = function.region
        shapes = [[d if isinstance(d, int) else 5 for d in b.shape] for b in region.inputs]
        arrays = [np.ones(shape, b.dtype) for shape, b in zip(shapes, region.inputs, strict=True)]
        try:
            with within_memory(function.name):
                region.prepare()
                region.bind(tuple(map(tuple, shapes)), arrays, {}).workspace()
        except (StructIRError, MissingCodeError):
            pass
    return bool(functions)


def test_mutated_plans_are_refused_or_used_without_other_errors(plans, marker):
    said, plant = plans
    rng, accepted = Random(20), 0
    for _ in range(400):
        plant(mutated(said, rng, code_for(marker)))
        accepted += used(CachedPlans(model(), options_text(False, False)).functions())
    assert 0 < accepted < 200
    plant(said)
    assert used(CachedPlans(model(), options_text(False, False)).functions())


@pytest.mark.parametrize(
    "data",
    [b"", b"[", b"[]", b"3", b"null", b"[" * 100_000, b"\xff", b"9" * 5000, b'{"format": 2}'],
    ids=range(9),
)
def test_data_that_is_no_plan_is_compiled_again(data, plans, tmp_path):
    _, plant = plans
    plant(data)
    check(structir.compile(model()))
    path = tmp_path / "model.sir"
    structir.compile(model()).save(path)
    change_plans(path, lambda _: data)
    with pytest.warns(DiagnosticWarning, match="is damaged: compiling again"):
        check(structir.load(path))


def test_mutated_saved_plans_are_refused_or_used_without_other_errors(plans, marker, tmp_path):
    path, rng, warned = tmp_path / "model.sir", Random(21), 0
    structir.compile(model()).save(path)
    whole = path.read_bytes()
    for _ in range(60):
        path.write_bytes(whole)
        change_plans(path, lambda said: mutated(said, rng, code_for(marker)))
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            executable = structir.load(path)
        warned += bool(messages)
        assert executable.function_names == ("main",)
    assert warned > 20


KERNEL = """def kernel(a, lo, hi):
    p0 = float32_pointer(a[0])
    for i in range(lo, hi):
        p0[i] = p0[i] * float32(3)
"""


@pytest.fixture
def entry(plans, monkeypatch):
    """The machine code of a kernel in the cache, as another process finds it."""
    monkeypatch.setattr(kernels, "_kernels", {})
    kernels.kernel(KERNEL)
    monkeypatch.setattr(kernels, "_kernels", {})
    return cache.store().read(objects.key_of(KERNEL))


def test_mutated_machine_code_entries_are_refused_or_loaded(entry, marker):
    rng, loaded = Random(22), 0
    for _ in range(100):
        facts = mutated({"facts": dict(entry.facts)}, rng, code_for(marker))["facts"]
        facts = facts if isinstance(facts, dict) else {}
        cache.store().write(objects.key_of(KERNEL), cache.CacheEntry(facts, entry.data))
        found = objects.from_disk(KERNEL)
        loaded += found is not None
        assert found is None or 0 not in found.addresses
    assert 0 < loaded < 100


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"x" * 500])
def test_invalid_machine_code_is_compiled_again(data, entry):
    cache.store().write(objects.key_of(KERNEL), cache.CacheEntry(entry.facts, data))
    assert not kernels.kernel(KERNEL).loaded.from_disk


def test_machine_code_without_its_symbol_is_not_loaded(entry):
    facts = {**entry.facts, "symbols": ["another_name"]}
    cache.store().write(objects.key_of(KERNEL), cache.CacheEntry(facts, entry.data))
    assert objects.from_disk(KERNEL) is None


def test_panels_are_read_within_their_constant(plans):
    store = CachedPlans(model(), options_text(False, False))
    number = next(k for k, c in enumerate(store.constants) if c.shape == WEIGHTS.shape)
    assert store._array_at([number, "wide", 0, 6, 4, 4, 1]) is not None
    for form in ([0, 7, 4, 4, 1], [0, 6, 4, 1 << 40, 1], [-1, 6, 4, 4, 1], [0, 0, 4, 4, 1], [0]):
        with pytest.raises((stored.NotStoredError, TypeError)):
            store._array_at([number, "wide", *form])
