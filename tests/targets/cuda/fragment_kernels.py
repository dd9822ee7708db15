"""Kernels of two warps, each of which multiplies small matrices by the functions for these; and
what they must give."""

import numpy as np

import structir
from structir.ir.dtype import numpy_dtype
from structir.loops.program.buffer import Buffer
from structir.targets.cuda.device import KernelPointer, Launch
from structir.targets.cuda.device_text import DeviceText

LINE = 24  # elements from a row in shared memory to the next one
TEXT = """
def kernel(p0, p1, p2):
    left = cuda.shared.array(768, uint16)
    right = cuda.shared.array(384, uint16)
    for i in range(cuda.threadIdx.x, 512, cuda.blockDim.x):
        left[i // 16 * 24 + i % 16] = p0[i]
    for i in range(cuda.threadIdx.x, 256, cuda.blockDim.x):
        right[i // 16 * 24 + i % 16] = p1[i]
    cuda.syncthreads()
    warp = cuda.threadIdx.x >> 5
    a0, a1, a2, a3 = {left}(left, warp * 384, 24)
    b0, b1, b2, b3 = {right}(right, 0, 24)
    nothing = float32(0.0)
    c0, c1, c2, c3 = {multiply}(a0, a1, a2, a3, b0, b1, nothing, nothing, nothing, nothing)
    d0, d1, d2, d3 = {multiply}(a0, a1, a2, a3, b2, b3, nothing, nothing, nothing, nothing)
    a0, a1, a2, a3 = {pair}(c0, c1), {pair}(c2, c3), {pair}(d0, d1), {pair}(d2, d3)
    c0, c1, c2, c3 = {multiply}(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3)
    lane = cuda.threadIdx.x & 31
    at = warp * 256 + (lane >> 2) * 16 + (lane & 3) * 2
    p2[at] = c0
    p2[at + 1] = c1
    p2[at + 128] = c2
    p2[at + 129] = c3
    p2[at + 8] = d0
    p2[at + 9] = d1
    p2[at + 136] = d2
    p2[at + 137] = d3
"""
FORMS = [(d, a, b) for d in ("float16", "bfloat16") for a in (False, True) for b in (False, True)]


def product(dtype):
    """A program with a product."""
    return structir.parse(f"""
@R.function
def main(x: R.Tensor(("n", "k"), "{dtype}"), w: R.Tensor(("k", "m"), "{dtype}")):
    return R.matmul(x, w)
""")


def text_of(dtype, left_turned, right_turned):
    """The kernel for factors that lie by rows, or turned."""
    lines = TEXT.format(
        left="left_fragment_turned" if left_turned else "left_fragment",
        right="right_fragments_turned" if right_turned else "right_fragments",
        multiply=f"multiply_{dtype}",
        pair=f"pair_{dtype}",
    )
    buffers = [Buffer((512,), dtype), Buffer((256,), dtype), Buffer((512,), "float32")]
    return DeviceText(lines, tuple(buffers), (), 1)


def assert_multiplied(device, dtype, left_turned, right_turned):
    """Run it, and compare: a factor times another, and for 8 columns that times it once more."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(numpy_dtype(dtype)) for s in ((2, 16, 16), (16, 16)))
    given = [a.swapaxes(1, 2) if left_turned else a, b.T if right_turned else b]
    given = [np.ascontiguousarray(x).view(np.uint16) for x in given]
    out = np.zeros((2, 16, 16), np.float32)
    arguments = [KernelPointer(x.ctypes.data, dtype, x.size) for x in given]
    arguments.append(KernelPointer(out.ctypes.data, "float32", 512))
    kernel = device.kernel(text_of(dtype, left_turned, right_turned))
    device.prepared([Launch(kernel, 1, 64, tuple(arguments), ())])()
    made = a.astype("f4") @ b.astype("f4")
    np.testing.assert_allclose(out[..., 8:], made[..., 8:], 1e-5, 1e-5)
    rounded = made.astype(numpy_dtype(dtype)).astype("f4")
    twice = rounded @ b.astype("f4") + made
    near = 1e-5 if dtype == "float16" else 1e-2  # what is rounded may have been rounded otherwise
    np.testing.assert_allclose(out[..., :8], twice[..., :8], near * 10, near * 10)
