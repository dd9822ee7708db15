"""Contents of cache entries and saved executables: whatever they hold, none of it is executed as
Python, and the only errors are StructIR's."""

import copy
import json
import warnings

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticWarning
from structir.ir import dims
from structir.ir.polynomial import opaque_atom
from structir.loops.program.kernel_text import MissingCodeError
from structir.printer.files.safetensors_file import mapped_file, write_file
from structir.runtime.executable import options_text
from structir.runtime.files import serialise
from structir.runtime.files.cached_plans import CachedPlans
from structir.runtime.plans import sizes
from structir.system import cache
from structir.targets.cpu import kernels, objects
from structir.tools.hostile.stored_model import WEIGHTS, check_results, model
from tests.runtime.scaled_kernels import scaled


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
    said["texts"] = [t.replace("):\n", f", q={code}):\n", 1) for t in said["texts"]]


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
    check_results(structir.compile(model()))


@ways
def test_code_in_a_saved_executable_is_not_executed(way, plans, marker, tmp_path):
    path = tmp_path / "model.sir"
    structir.compile(model()).save(path)
    change_plans(path, lambda said: way(said, code_for(marker)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        check_results(structir.load(path))


def change_plans(path, change):
    """Changes the plans in a file, under a checksum that is right."""
    arrays, facts = mapped_file(path)
    (name,) = [n for n in arrays if n.startswith("plans ")]
    key = name.removeprefix("plans ")
    said = json.loads(cache.parse_entry(key, arrays[name].tobytes()).data)
    changed = change(said)
    said = said if changed is None else changed
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    arrays[name] = np.frombuffer(cache.pack_entry(key, cache.CacheEntry({}, data)), np.uint8)
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
    check_results(structir.compile(model()))


def test_a_form_without_machine_code_is_lowered_from_the_program(plans, monkeypatch):
    executable = structir.compile(model())
    region = executable.direct["main"].region
    forget_machine_code(monkeypatch)  # of the general form, which no call has needed so far
    check_results(executable)
    check_results(executable)
    assert len(executable.plans()) == 2 and region._lowered is not None


def test_generated_code_calls_no_unknown_function():
    size = dims.sym("n")
    evil = dims.as_dim(opaque_atom("print", (size,), (0, None)))
    with pytest.raises(ValueError, match="no function of sizes"):
        dims.python_text(evil)
    evaluate = sizes.Evaluator([size * 2, 7, dims.dim_max(size, 3)], sizes.symbols_of([size]))
    assert [evaluate([n]).tolist() for n in (5, 1)] == [[10, 7, 5], [2, 7, 3]]


@pytest.mark.parametrize(
    "data",
    [b"", b"[", b"[]", b"3", b"null", b"[" * 100_000, b"\xff", b"9" * 5000, b'{"format": 2}'],
    ids=range(9),
)
def test_data_that_is_no_plan_is_compiled_again(data, plans, tmp_path):
    _, plant = plans
    plant(data)
    check_results(structir.compile(model()))
    path = tmp_path / "model.sir"
    structir.compile(model()).save(path)
    change_plans(path, lambda _: data)
    with pytest.warns(DiagnosticWarning, match="is damaged: compiling again"):
        check_results(structir.load(path))


KERNEL, CODE = scaled(3.0)


@pytest.fixture
def entry(plans, monkeypatch):
    """The machine code of a kernel in the cache, as another process finds it."""
    monkeypatch.setattr(kernels, "_kernels", {})
    kernels.kernel(KERNEL, lambda: CODE)
    monkeypatch.setattr(kernels, "_kernels", {})
    return cache.store().read(objects.key_of(KERNEL))


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"x" * 500])
def test_invalid_machine_code_is_compiled_again(data, entry):
    cache.store().write(objects.key_of(KERNEL), cache.CacheEntry(entry.facts, data))
    assert not kernels.kernel(KERNEL, lambda: CODE).loaded.from_disk


def test_machine_code_without_its_symbol_is_not_loaded(entry):
    facts = {**entry.facts, "symbols": ["another_name"]}
    cache.store().write(objects.key_of(KERNEL), cache.CacheEntry(facts, entry.data))
    assert objects.from_disk(KERNEL) is None


def test_panels_are_read_within_their_constant(plans):
    store = CachedPlans(model(), options_text(False, False))
    number = next(k for k, c in enumerate(store.constants) if c.shape == WEIGHTS.shape)
    assert store._array_at([number, "wide", 0, 6, 4, 4, 1]) is not None
    for form in ([0, 7, 4, 4, 1], [0, 6, 4, 1 << 40, 1], [-1, 6, 4, 4, 1], [0, 0, 4, 4, 1], [0]):
        with pytest.raises((serialise.NotStoredError, TypeError)):
            store._array_at([number, "wide", *form])
