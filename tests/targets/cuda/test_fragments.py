"""Products by warps: by threads of the host, and as machine code."""

import re

import numpy as np
import pytest

from structir.targets.cuda.ahead import AheadDevice
from structir.targets.cuda.executable import DeviceExecutable
from tests.targets.cuda.fragment_kernels import FORMS, assert_multiplied, product, text_of
from tests.targets.cuda.host_threads import HostThreads
from tests.targets.cuda.simulated_every_op import on_host

pytestmark = pytest.mark.sampled(1)


@pytest.mark.parametrize("form", FORMS)
def test_warps_multiply(form):
    assert_multiplied(HostThreads(), *form)


@pytest.mark.parametrize("form", FORMS[::3])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_cards_have_instructions_for_this(form, architecture):
    dtype, *turned = form
    ptx = AheadDevice(architecture).kernel(text_of(*form)).ptx
    kind = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    assert len(re.findall(rf"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.{kind}", ptx)) == 3
    loads = re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.shared", ptx)
    assert sorted(loads) == sorted([".trans" if t else "" for t in (turned[0], not turned[1])])
    assert len(re.findall(rf"cvt\.rn\.{kind}x2\.f32", ptx)) == 4


@pytest.mark.parametrize("form", FORMS[::3])
def test_lanes_of_older_cards_multiply_by_themselves(form):
    device = HostThreads()
    device.older = True
    assert_multiplied(device, *form)
    ptx = AheadDevice("sm_75").kernel(text_of(*form)).ptx
    assert "mma.sync" not in ptx and "shfl.sync.idx" in ptx


@pytest.mark.parametrize(("architecture", "found"), [("sm_75", 0), ("sm_80", 16), ("sm_90", 16)])
def test_rounded_factors_have_instructions(architecture, found):
    ptx = DeviceExecutable(product("float32"), AheadDevice(architecture), tf32=True).ptx()
    instruction = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
    assert ptx.count(instruction) == found
    assert ("cvt.rna.tf32.f32" in ptx) == bool(found)


def test_lanes_of_older_cards_multiply_singles():
    device = HostThreads()
    device.older = True
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype("float32") for shape in ((5, 20), (20, 9))]
    found = on_host(DeviceExecutable(product("float32"), device, tf32=True)["main"](*given))
    np.testing.assert_allclose(found, given[0] @ given[1], 1e-5, 1e-5)
