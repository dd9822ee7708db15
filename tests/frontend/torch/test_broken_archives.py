"""Broken or hostile files: one diagnostic, bounded memory, no execution."""

from __future__ import annotations

import copy
import io
import json
import pickle
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structir.errors import StructIRError
from structir.frontend.torch import from_pt2
from structir.ir import structural_equal
from tests.frontend.torch.stored_programs import stored
from tests.frontend.torch.written import archive, meta, node, payload, program, symbol

N = symbol("s0")


def simple(**changes: Any) -> dict[str, Any]:
    nodes = [node("aten.mm.default", "y", self="x", mat2="w")]
    values = {"x": meta(N, 2), "w": meta(2, 3), "y": meta(N, 3)}
    return program(nodes, values, ["x"], ["y"], ("w",)) | changes


WEIGHTS = {"w": np.ones((2, 3), "float32")}


def refused(file: Any, match: str) -> None:
    with pytest.raises(StructIRError, match=match):
        from_pt2(file)


def test_the_simple_program_is_right() -> None:
    assert from_pt2(archive(simple(), WEIGHTS))["main"]


def test_no_archive(tmp_path: Path) -> None:
    refused(io.BytesIO(b"PK\x03\x04 and no more"), "not a valid .pt2 archive")
    refused(tmp_path / "missing.pt2", "cannot read")
    whole = archive(simple(), WEIGHTS).getvalue()
    refused(io.BytesIO(whole[: len(whole) // 2]), "truncated")


def test_no_program_in_it() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("m/other.txt", "x")
    refused(made, "expected 1 exported program, found 0")
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("serialized_exported_program.json", "{}")
    refused(made, "old release of torch")


def test_deflated_archives_are_read() -> None:
    deflated = archive(simple(), WEIGHTS, compression=zipfile.ZIP_DEFLATED)
    assert structural_equal(from_pt2(deflated), from_pt2(archive(simple(), WEIGHTS)))
    others = archive(simple(), WEIGHTS, compression=zipfile.ZIP_BZIP2)
    refused(others, "expected a stored or deflated file")


def test_deflated_files_that_expand_too_much_are_not_unpacked() -> None:
    bomb = archive("[" + " " * 50_000_000 + "]", compression=zipfile.ZIP_DEFLATED)
    assert len(bomb.getvalue()) < 100_000
    refused(bomb, "expected at most 64 times the size of the archive")


def test_deflated_files_never_expand_beyond_their_declared_size() -> None:
    bomb = archive("[" + " " * 50_000_000 + "]", compression=zipfile.ZIP_DEFLATED)
    data = bytearray(bomb.getvalue())
    entry = data.rindex(b"m/models/model.json") - 46  # in the directory at the end
    data[entry + 24 : entry + 28] = (1000).to_bytes(4, "little")
    tracemalloc.start()
    try:
        refused(io.BytesIO(bytes(data)), "corrupt data")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_rejects_a_file_larger_than_the_archive() -> None:
    data = bytearray(archive(simple(), WEIGHTS).getvalue())
    place = data.rindex(b"m/models/model.json") - 46  # its entry in the directory at the end
    data[place + 20 : place + 28] = (2**31 - 1).to_bytes(4, "little") * 2
    refused(io.BytesIO(bytes(data)), "larger than the archive|corrupt")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "nul", '{"graph_module": 3}', "[]", "3"])
def test_no_json(text: str) -> None:
    refused(archive(text), "not valid JSON|malformed")


def test_pickled_weights_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def caught(*_: Any) -> None:
        raise AssertionError("something was unpickled")

    monkeypatch.setattr(pickle, "load", caught)
    monkeypatch.setattr(pickle, "loads", caught)
    config = {"config": {"w": payload("weight_0", meta(2, 3), pickled=True)}}
    refused(with_config(config), "pickled")


def with_config(config: Any) -> io.BytesIO:
    """Returns the simple program with another description of its weights."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("m/models/model.json", json.dumps(simple()))
        file.writestr("m/data/weights/weight_0", bytes(24))
        file.writestr("m/data/weights/model_weights_config.json", json.dumps(config))
    return made


def changed_meta(**changes: Any) -> dict[str, Any]:
    tensor = meta(2, 3)
    tensor["strides"] = [{"as_int": 3}, {"as_int": 1}]
    return {"config": {"w": payload("weight_0", tensor | changes)}}


def ints(*values: int) -> list[dict[str, int]]:
    return [{"as_int": v} for v in values]


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": ints(2, 4)},
        {"sizes": ints(1 << 40, 1 << 40), "strides": ints(0, 0)},
        {"sizes": ints(-2, 3)},
        {"strides": ints(-3, 1)},
        {"strides": ints(3)},
        {"storage_offset": {"as_int": 5}},
        {"storage_offset": {"as_int": -1}},
        {"storage_offset": {"as_int": 10**30}},
        {"sizes": [{"as_expr": {"expr_str": N}}] * 2},
        {"dtype": 99},
        {"dtype": "float32"},
        {"sizes": None},
    ],
)
def test_weights_that_lie_about_their_elements(changes: Any) -> None:
    refused(with_config(changed_meta(**changes)), "'w'|malformed")


def test_files_outside_the_archive_are_not_touched() -> None:
    tensor = changed_meta()["config"]["w"]["tensor_meta"]
    for path in ("../../../../etc/passwd", "/etc/passwd", "", "weight_9"):
        refused(with_config({"config": {"w": payload(path, tensor)}}), "has no file|corrupt")


def test_missing_weights() -> None:
    refused(archive(simple()), "no data of 'w'")


def test_undefined_values() -> None:
    stated = simple()
    stated["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {"as_tensor": {"name": "q"}}
    refused(archive(stated, WEIGHTS), "'q' is used before any node defines it")


def test_shapes_that_lie() -> None:
    stated = simple()
    stated["graph_module"]["graph"]["tensor_values"]["x"] = meta(N, 7)
    refused(archive(stated, WEIGHTS), "matmul")


def test_graphs_that_are_nested_too_deep() -> None:
    graph: Any = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}}
    for _ in range(70):
        hold = {"name": "", "arg": {"as_graph": {"name": "g", "graph": graph}}}
        inner = {"target": "torch.ops.higher_order.cond", "inputs": [hold], "outputs": []}
        graph = {"inputs": [], "outputs": [], "nodes": [inner], "tensor_values": {}}
    stated = simple()
    stated["graph_module"]["graph"] = graph
    refused(archive(stated, WEIGHTS), "nested")


PROGRAMS = [stored(name).program for name in ("model_cached", "model_chooser", "model_selector")]


def parts_of(program: bytes) -> tuple[Any, dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(program)) as file:
        held = {name: file.read(name) for name in file.namelist()}
    path = next(name for name in held if name.endswith("models/model.json"))
    return json.loads(held.pop(path)), held


PARTS = [parts_of(program) for program in PROGRAMS]
LEAVES = [None, -1, 0, 10**30, 1.5, True, "x", [], {}, [1], {"as_int": 3}, {"as_none": True}]


def places_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yields the paths of all parts of a JSON value."""
    found = [at] if at else []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        found += [place for key, item in items for place in places_of(item, (*at, key))]
    return found


def drawn(data: st.DataObject, graph: Any) -> tuple[Any, ...]:
    """Generates a path in a program."""
    places = places_of(graph)
    return places[data.draw(st.integers(0, len(places) - 1))]


@pytest.mark.filterwarnings("ignore::structir.errors.DiagnosticWarning")  # of unreadable guards
@given(st.data())
@settings(max_examples=100)
def test_modified_programs_import_or_raise_one_diagnostic(data: st.DataObject) -> None:
    """Checks that only StructIR errors are raised."""
    stated, held = PARTS[data.draw(st.integers(0, len(PARTS) - 1))]
    graph = copy.deepcopy(stated)
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = drawn(data, graph)
        holder = graph
        for key in way:
            holder = holder[key]
        kind = data.draw(st.sampled_from(["drop", "change", "swap"]))
        if kind == "drop":
            holder.pop(last)
        elif kind == "change":
            holder[last] = copy.deepcopy(data.draw(st.sampled_from(LEAVES)))
        else:
            place = drawn(data, graph)
            other: Any = graph
            for key in place:
                other = other[key]
            holder[last] = copy.deepcopy(other)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("archive/models/model.json", json.dumps(graph))
        for name, content in held.items():
            file.writestr(name, content)
    try:
        from_pt2(made)
    except StructIRError as error:
        assert str(error)


@given(st.data())
@settings(max_examples=40)
def test_modified_archives_import_or_raise_one_diagnostic(data: st.DataObject) -> None:
    content = bytearray(PROGRAMS[data.draw(st.integers(0, len(PROGRAMS) - 1))])
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        from_pt2(io.BytesIO(bytes(content)))
    except StructIRError as error:
        assert str(error)
