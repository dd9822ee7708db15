"""A saved executable holds packed weights in place of the constants that only products read."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import structir
from structir.errors import DiagnosticError, DiagnosticWarning, ParseError
from structir.loops.products import packing
from structir.printer.files import archive as module_files
from structir.printer.files.archive import PANELS
from structir.printer.files.column_panels import ColumnPanels, panels_of_json
from structir.printer.files.safetensors_file import mapped_file, write_file
from structir.runtime.files import archive

X = 'x: R.Tensor(("n", 64), "float32")'
IMAGE = 'x: R.Tensor((1, 16, 9, 9), "float32")'
CASES = {  # a program, the shape of its weights, whether the file has them as panels
    "matmul": (X, 'R.matmul(x, metadata["w"])', (64, 128), True),
    "transposed": (X, 'R.matmul(x, R.permute_dims(metadata["w"]))', (128, 64), True),
    "padded by little": (X, 'R.matmul(x, metadata["w"])', (64, 250), True),
    "padded by much": (X, 'R.matmul(x, metadata["w"])', (64, 9), False),
    "convolution": (IMAGE, 'R.nn.conv2d(x, metadata["w"])', (32, 16, 3, 3), True),
    "also added": (X, 'R.matmul(x, metadata["w"]) + R.sum(metadata["w"])', (64, 128), False),
    "also a table": (
        X,
        'R.matmul(x, R.permute_dims(metadata["w"])), R.take(metadata["w"], R.const([3]), axis=0)',
        (128, 64),
        False,
    ),
    "two ways": (
        'x: R.Tensor((2, 64), "float32")',
        'R.matmul(R.matmul(x, metadata["w"]), R.permute_dims(metadata["w"]))',
        (64, 128),
        False,
    ),
}


def saved(case, path):
    parameter, result, shape, _ = CASES[case]
    weights = np.random.default_rng(3).standard_normal(shape, np.float32)
    text = f"@R.function\ndef main({parameter}):\n    return {result}\n"
    module = structir.parse(text, constants={"w": weights})
    executable = structir.compile(module)
    executable.save(path)
    size = (1, 16, 9, 9) if parameter == IMAGE else (2, 64)
    return module, executable, np.random.default_rng(1).standard_normal(size, np.float32)


def check(actual, expected):
    single = isinstance(expected, np.ndarray)
    pairs = [(actual, expected)] if single else zip(actual, expected, strict=True)
    for one, other in pairs:
        assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize("case", CASES)
def test_executables_are_the_same_from_a_file(case, tmp_path):
    path, again = tmp_path / "model.sir", tmp_path / "again.sir"
    module, executable, x = saved(case, path)
    arrays, facts = mapped_file(path)
    assert (PANELS in facts) == CASES[case][3]
    constants = [a for a in arrays.values() if a.dtype == np.float32 and a.size > 16]
    assert sum(a.nbytes for a in constants) <= 1.1 * np.prod(CASES[case][2]) * 4
    loaded = structir.load(path)
    check(loaded["main"](x), executable["main"](x))
    loaded.save(again)
    assert abs(again.stat().st_size - path.stat().st_size) < 4096
    check(structir.load(again)["main"](x), executable["main"](x))
    for other in (loaded.module, structir.load(again).module, module_files.load(path)):
        assert structir.structural_equal(other, module)


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if case[3]])
def test_no_weights_are_packed_or_restored_on_load(case, tmp_path, monkeypatch):
    path = tmp_path / "model.sir"
    _, executable, x = saved(case, path)
    expected = executable["main"](x)

    def refuse(*args):
        raise AssertionError("packed")

    monkeypatch.setattr(packing, "PACKINGS", {"wide": refuse, "narrow": refuse})
    monkeypatch.setattr(ColumnPanels, "restored", refuse)
    loaded = structir.load(path)
    check(loaded["main"](x), expected)
    panels = [p for plan in loaded.plans() for p in plan.constants.values() if p.size > 16]
    assert panels and all(not p.flags.owndata and not p.flags.writeable for p in panels)


def test_another_processor_restores_the_weights(tmp_path, monkeypatch):
    path = tmp_path / "model.sir"
    _, executable, x = saved("transposed", path)
    expected = executable["main"](x)
    monkeypatch.setattr(archive.identity, "machine_identity", lambda: "another")
    with pytest.warns(DiagnosticWarning, match="another processor"):
        loaded = structir.load(path)
    check(loaded["main"](x), expected)


JUNK = st.one_of(
    *(st.none(), st.integers(-2, 1 << 70), st.text(max_size=3), st.booleans()),
    st.lists(st.integers(-1, 70), max_size=3),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(index=st.integers(0, 4), junk=JUNK)
def test_wrong_records_of_panels_are_refused(tmp_path, index, junk):
    path = tmp_path / "model.sir"
    if not path.exists():
        saved("matmul", path)
    arrays, facts = mapped_file(path)
    ((name, record),) = json.loads(facts[PANELS]).items()
    changed = [*record[:index], junk, *record[index + 1 :]]
    damaged = tmp_path / "damaged.sir"
    write_file(arrays, {**facts, PANELS: json.dumps({name: changed})}, damaged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        try:
            structir.load(damaged)
        except DiagnosticError:  # a valid record of another constant may not suit the program
            return
    assert panels_of_json(name, changed)


@pytest.mark.parametrize("text", ["[]", "3", "{", '{"a": []}', "null"])
def test_other_records_are_refused(text, tmp_path):
    path = tmp_path / "model.sir"
    saved("matmul", path)
    arrays, facts = mapped_file(path)
    write_file(arrays, {**facts, PANELS: text}, path)
    with pytest.raises(ParseError, match="not a StructIR module file"):
        structir.load(path)
