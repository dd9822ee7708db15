"""Products by warps on the simulator."""

import pytest

from structir.backend.cuda.device import Launch
from structir.backend.cuda.device_text import DeviceText
from structir.backend.cuda.simulator import SimulatedDevice
from tests.backend.cuda.fragment_kernels import FORMS, assert_multiplied


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
