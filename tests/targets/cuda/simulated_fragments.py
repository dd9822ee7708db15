"""Products by warps on the simulator."""

import numpy as np
import pytest

import structir
from structir.targets.cuda.device import Launch
from structir.targets.cuda.device_text import DeviceText
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.simulator import SimulatedDevice
from tests.targets.cuda.fragment_kernels import FORMS, assert_multiplied, product


@pytest.mark.parametrize("form", FORMS)
def test_warps_multiply(form):
    assert_multiplied(SimulatedDevice(), *form)


def test_rows_begin_at_multiples_of_16_bytes():
    text = """
def kernel():
    left = cuda.shared.array(768, uint16)
    a0, a1, a2, a3 = left_fragment(left, 4, 24)
"""
    device = SimulatedDevice()
    kernel = device.kernel(DeviceText(text, (), (), 1))
    with pytest.raises(Exception, match="a row of a matrix begins at no multiple of 16 bytes"):
        device.prepared([Launch(kernel, 1, 32, (), ())])()


def test_a_product_of_rounded_factors():
    """Programs with factors of 16 bits have the same text: threads of the host run it."""
    module = product("float32")
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape, "float32") for shape in ((3, 12), (12, 5))]
    found = DeviceExecutable(module, SimulatedDevice(), tf32=True)["main"](*given)
    wanted = structir.interpret(module, "main", *given)
    np.testing.assert_allclose(np.asarray(found), wanted, 1e-2, 1e-2)
