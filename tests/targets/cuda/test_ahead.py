"""Programs as PTX and machine code for GPUs that this machine does not have."""

import json
import re

import numpy as np
import pytest

import structir
from minilm_program import minilm_text
from structir.errors import DiagnosticError, StructIRError
from structir.loops.regions.region import RegionLowering
from structir.ops import load
from structir.passes import Schedule
from structir.runtime.files.archive import SavedPlans
from structir.runtime.files.serialise import read, serialise
from structir.script import I, R
from structir.targets.cuda import archive, compiler
from structir.targets.cuda.ahead import AheadDevice
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.serialise import DeviceReading, DeviceWriting
from tests.loops.test_every_example import program
from tests.ops.test_every_op import OPS
from tests.runtime.agreement import assert_agree
from tests.targets.cuda.host_threads import HostThreads
from tests.targets.cuda.simulated_every_op import on_host


@I.ir_module
class Mlp:
    @R.function
    def main(
        x: R.Tensor(("n", 7), "float32"),
        w: R.Tensor((7, "m"), "float32"),
        b: R.Tensor(("m",), "float32"),
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            h = R.nn.gelu(R.matmul(x, w) + b)
            y = R.mean(R.nn.softmax(h) * h)
            R.output(y)
        return y


def codes(executable):
    found = [kernel for plan in executable.plans() for kernel in plan.kernels]
    return [getattr(kernel, "code", kernel) for kernel in found]  # a GPU kernel has code


def assert_is_code(executable, architecture):
    """Each kernel has PTX for the architecture, and an ELF with machine code."""
    found = codes(executable)
    assert found
    for code in found:
        assert f".target {architecture}" in code.ptx
        assert re.search(rf"\.visible \.entry {code.entry}\(", code.ptx)
        assert code.cubin[:4] == b"\x7fELF" and code.entry.encode() in code.cubin


FORMS = pytest.mark.parametrize(
    ("architecture", "dtype"), [("sm_80", "float32"), ("sm_90", "float32"), ("sm_90", "float16")]
)


@pytest.mark.sampled(1)
@FORMS
def test_a_network_with_its_gradient(architecture, dtype):
    module = structir.parse(str(Mlp).replace("float32", dtype))
    trained = structir.passes.Gradient()(module)
    assert_is_code(structir.compile(trained, target="cuda", arch=architecture), architecture)


@pytest.mark.sampled(1)
@FORMS
def test_the_encoder(architecture, dtype):
    text = minilm_text().replace("float32", dtype).replace("-1e9", "-6e4")
    executable = structir.compile(structir.parse(text), target="cuda", arch=architecture)
    assert f"{dtype} (batch" in executable.source()
    assert_is_code(executable, architecture)
    assert "block_sum_float32" in executable.source("encoder_layer")
    assert "shfl.sync" in executable.ptx("encoder_layer")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("architecture", "step"), [("sm_80", 5), ("sm_90", 3)])
def test_every_op(architecture, step):
    load()
    device = AheadDevice(architecture)
    with_kernels, names = 0, sorted(OPS)[::step]
    for name in names:
        definition = OPS[name].definition
        module, _ = program(definition, *definition.examples[0])
        try:
            executable = DeviceExecutable(module, device)
        except StructIRError as error:
            assert "has no CUDA kernel" in str(error)
            continue
        if codes(executable):
            assert_is_code(executable, architecture)
            with_kernels += 1
    assert with_kernels >= 0.75 * len(names)


def test_kernels_that_only_move_elements_are_those_of_their_dtypes():
    device, found = AheadDevice("sm_90"), {}
    for dtype in ("int8", "float32", "float64"):
        text = f'R.Tensor(("n", 3), "{dtype}")'
        module = structir.parse(
            f"@R.function\ndef main(x: {text}):\n    return R.flip(x, axis=0)\n"
        )
        found[dtype] = re.findall(r"st\.global\S*\.b(\d+)", DeviceExecutable(module, device).ptx())
    assert found == {"int8": ["8"], "float32": ["32"], "float64": ["64"]}


def test_what_is_saved_is_loaded_without_compiling(tmp_path, monkeypatch):
    executable = structir.compile(Mlp, target="cuda", arch="sm_90", tf32=True)
    executable.save(tmp_path / "mlp.cuda")
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    monkeypatch.setattr(compiler, "_codes", {})
    monkeypatch.setattr(compiler, "translated", None)
    monkeypatch.setattr(RegionLowering, "add", None)
    loaded = structir.load(tmp_path / "mlp.cuda")
    assert loaded.tf32 and loaded.device.architecture == "sm_90"
    assert [c.cubin for c in codes(loaded)] == [c.cubin for c in codes(executable)]
    assert structir.structural_equal(loaded.module, Mlp)


def test_what_was_compiled_before_is_not_lowered_again(tmp_path, monkeypatch):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    monkeypatch.setattr(compiler, "_codes", {})
    first = structir.compile(Mlp, target="cuda", arch="sm_90")
    monkeypatch.setattr(compiler, "_codes", {})
    monkeypatch.setattr(compiler, "translated", None)
    monkeypatch.setattr(RegionLowering, "add", None)
    again = structir.compile(Mlp, target="cuda", arch="sm_90")
    assert [c.cubin for c in codes(again)] == [c.cubin for c in codes(first)]
    assert again.source() == first.source() and repr(again) == repr(first)


def test_what_was_compiled_in_another_way_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    ways = (True, False)
    first = [structir.compile(Mlp, target="cuda", arch="sm_90", tf32=way) for way in ways]
    again = [structir.compile(Mlp, target="cuda", arch="sm_90", tf32=way) for way in ways]
    assert [e.source() for e in again] == [e.source() for e in first]
    assert len({e.source() for e in first}) == 2


def test_plans_that_are_written_down_run_as_they_were():
    module, device = structir.passes.Gradient()(Mlp), HostThreads()
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype("float32") for s in ((2, 7), (7, 70), (70,))]
    first = DeviceExecutable(module, device)
    said = json.dumps(serialise([f.stored for f in first.direct.values()], DeviceWriting(id)))
    found = read(json.loads(said), lambda: DeviceReading(json.loads(said), id, device, False))
    again = DeviceExecutable(module, device, store=SavedPlans(list(module.functions), found))
    assert list(again.direct) == list(first.direct)
    wanted = first["main_adjoint"](*given)
    assert_agree(on_host(wanted), on_host(again["main_adjoint"](*given)))


def test_code_of_other_versions_is_made_again(tmp_path, monkeypatch):
    executable = structir.compile(Mlp, target="cuda", arch="sm_90")
    with monkeypatch.context() as patch:
        patch.setattr(archive, "identity", lambda: "another time")
        executable.save(tmp_path / "mlp.cuda")
    with pytest.warns(match="compiled by other versions"):
        assert_is_code(structir.load(tmp_path / "mlp.cuda"), "sm_90")


def test_nothing_runs_without_a_card():
    executable = DeviceExecutable(Mlp, AheadDevice("sm_90"))
    with pytest.raises(StructIRError, match="compiled for sm_90, but this machine has no such GPU"):
        executable["main"](*[np.ones(s, np.float32) for s in ((2, 7), (7, 3), (3,))])


def test_architectures_have_names():
    with pytest.raises(StructIRError, match="no architecture 'hopper'"):
        structir.compile(Mlp, target="cuda", arch="hopper")


def test_architectures_that_came_later_and_that_are_gone():
    ahead = DeviceExecutable(Mlp, PtxDevice("sm_103"))
    assert all(".target sm_100" in code.ptx for code in codes(ahead))
    with pytest.raises(StructIRError, match="from sm_75 on, found sm_61"):
        structir.compile(Mlp, target="cuda", arch="sm_61")


class PtxDevice(AheadDevice):
    """An architecture for which PTX is made, and no machine code."""

    def kernel(self, text):
        ptx = compiler.ptx_of(text, self.architecture)
        return compiler.GpuCode(text.text, self.architecture, "", ptx, b"", 0.0)


def test_options_that_a_backend_does_not_have():
    with pytest.raises(
        StructIRError, match="backend cpu: unknown option 'arch'; available: num_threads"
    ):
        structir.compile(Mlp, arch="sm_90")
    with pytest.raises(StructIRError, match="unknown backend 'tpu'; available: cpu, cuda"):
        structir.compile(Mlp, target="tpu")


def test_kernels_that_run_in_parts_stay_on_the_cpu():
    with pytest.raises(DiagnosticError, match=r"has no CUDA kernel: a kernel with `T.part` is"):
        structir.compile(Schedule()(Mlp), target="cuda", arch="sm_90")


def test_a_toolkit_of_the_machine_does_instead_of_nvidias_distributions(monkeypatch):
    def version(part):
        if part.startswith("nvidia-"):
            raise compiler.importlib.metadata.PackageNotFoundError(part)
        return "1.0"

    before = compiler.identity.__wrapped__()
    monkeypatch.setattr(compiler.importlib.metadata, "version", version)
    assert compiler.identity.__wrapped__() not in ("", before)
