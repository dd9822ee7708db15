"""Ops on complex tensors and Fourier transforms, as groups beside those of `op_cases`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fft

from tests.frontend.torch.op_cases import GROUPS, add, normal, positive, words

__all__ = ["GROUPS"]
COMPLEX = torch.complex64
torch.manual_seed(1)
Z, ROW, X = torch.randn(4, 6, dtype=COMPLEX), torch.randn(6, dtype=COMPLEX), normal(4, 6)
WIDE = torch.randn(3, 3, dtype=torch.complex128)


def overwritten(x: Tensor) -> Tensor:
    result = torch.zeros(x.shape, dtype=COMPLEX)
    result[:, :3] = torch.complex(x, x)[:, :3] * (2 + 1j)
    result[0] = 1j
    return result


def written_parts(x: Tensor) -> Any:
    z = torch.complex(x, x).clone()
    z.real.mul_(2)
    z.imag[0] = 1
    pairs = torch.view_as_real(z)
    pairs[..., 1] += x
    conjugate = z.conj()
    z *= 1j
    return z, conjugate, pairs


def written_pairs(x: Tensor) -> Tensor:
    pairs = torch.stack([x, -x], -1)
    torch.view_as_complex(pairs).mul_(1j)
    return pairs


def sampled(*results: Tensor) -> Any:
    """Returns every 37th element of long results."""
    return tuple([x[..., ::37] for x in results])


ARITHMETIC: dict[str, Any] = {
    "add": lambda a, b, x: (a + b, x - a, a - 1, 2j + x, torch.add(a, b, alpha=2)),
    "mul": lambda a, b, x: (a * b, a * x, a * 2j, x * 1j, -a),
    "div": lambda a, b, x: (a / b, a / x, x / a, a / 2, 1 / a, 2j / x),
    "linear": lambda a, b, x: (F.linear(a, a), F.linear(a, a, b[:4])),
    "matmul": lambda a, b, x: (a @ a.mT, a @ a.mH, a @ b, (x + 0j) @ a.mT),
    "vectors": lambda a, b, x: (torch.vdot(b, b), torch.dot(b, b), torch.outer(b, a[0])),
    "addmm": lambda a, b, x: torch.addmm(b[:4], a, a.mT, beta=2, alpha=0.5),
    "einsum": lambda a, b, x: torch.einsum("ab,cb,b->ac", a, a, b),
    "sums": lambda a, b, x: (a.sum(0), a.mean(), a.cumsum(1), a.var(), a.std(0)),
    "norms": lambda a, b, x: (a.norm(), torch.linalg.vector_norm(a, dim=1)),
    "compare": lambda a, b, x: (a == a, a == b, a != a.real, torch.isnan(a / 0)),
    "where": lambda a, b, x: (torch.where(x > 0, a, b), a.masked_fill(x > 0, 1j)),
    "parts": lambda a, b, x: (a.real + a.imag, a.abs(), a.angle(), x.angle(), a.conj() * a),
    "polar": lambda a, b, x: (torch.polar(x.abs(), x), torch.complex(x, x), x.to(COMPLEX)),
    "created": lambda a, b, x: (
        torch.full((3,), 1j) + torch.tensor([1j, 2, 3]),
        torch.ones_like(a) + torch.eye(6, dtype=COMPLEX)[:4],
    ),
    "shapes": lambda a, b, x: (
        a.permute(1, 0)[None], a.reshape(-1), a[:, None].expand(4, 2, 6), a.flip(0), a.roll(1, 0),
        torch.cat([a, x]), torch.stack([a, a], -1), a.repeat(2, 1), a.unbind(0)[1], a.tril(),
    ),
    "indices": lambda a, b, x: (
        a[[1, 0, 1]], a.narrow(1, 1, 2), a.unfold(1, 2, 2), F.pad(a, (1, 2)), a.diagonal(),
        a.index_select(1, torch.tensor([1, 2])), a.gather(1, torch.zeros(4, 2).long()),
    ),
    "writes": lambda a, b, x: (overwritten(x), written_parts(x), written_pairs(x)),
}  # fmt: skip
for name, act in ARITHMETIC.items():
    add("complex", name, act, Z, ROW, X)
add("complex", "wide", lambda z: (z * 1j, z @ z, z.exp()), WIDE)

for name in words("exp log log2 log10 log1p expm1 sqrt rsqrt square reciprocal sgn sigmoid"):
    add("complex_functions", name, getattr(torch, name), Z)
for name in words("sin cos tan sinh cosh tanh"):
    add("complex_functions", name, getattr(torch, name), Z)
EDGES = torch.tensor([0, 1, -1, 1j, -1j, 1e30 + 1e30j, -4, 3 - 4j], dtype=COMPLEX)
add("complex_functions", "abs", torch.abs, EDGES)
add("complex_functions", "sqrt_edges", torch.sqrt, EDGES)
add("complex_functions", "div_edges", lambda z: z[1:] / z[1:].flip(0), EDGES)
add("complex_functions", "power", lambda z: (z**2, z**-3, z**1.5, z**0.5, z**0), Z)
add("complex_functions", "powers", lambda z, x: (2.0**z, z ** (1 + 2j), x**z, z**x), Z, positive(6))
add("complex_functions", "power_of_0", lambda z: z**1.5, EDGES[:5])

for name in words("fft ifft rfft irfft hfft ihfft"):
    is_real = name in ("rfft", "ihfft")
    act = getattr(fft, name)
    add("fourier", name, lambda x, f=act: (f(x), f(x, 8, norm="ortho"), f(x, 5, 0, norm="forward")),
        X if is_real else Z)  # fmt: skip
    for suffix in ("2", "n"):
        act, x = getattr(fft, name + suffix), normal(2, 3, 4, 5)
        add("fourier", name + suffix,
            lambda x, f=act: (f(x), f(x, (3, 8), norm="ortho"), f(x, dim=(0, 2), norm="forward")),
            x if is_real else torch.complex(x, 2 * x))  # fmt: skip
add("fourier", "of_real", lambda x: (fft.fft(x), fft.ifft(x), fft.irfft(x), fft.hfft(x)), X)
add("fourier", "shift", lambda z: (fft.fftshift(z), fft.ifftshift(z, 0), fft.fftshift(z.real)), Z)
add("fourier", "frequencies", lambda x: (x + fft.fftfreq(6, 0.5), x + fft.rfftfreq(10)), X)
add("fourier", "large", lambda x: sampled(fft.rfft(x, 1000), fft.fft(x, 523), fft.irfft(x, 600)), X)
SIGNAL, HANN, NARROW = normal(2, 64), torch.hann_window(16), torch.hamming_window(10)
add("fourier", "stft", lambda x, w: torch.stft(x, 16, 4, window=w, return_complex=True),
    SIGNAL, HANN)  # fmt: skip
add("fourier", "stft_narrow", lambda x, w: torch.stft(
    x, 16, win_length=10, window=w, normalized=True, onesided=False, center=False,
    return_complex=True), SIGNAL, NARROW)  # fmt: skip
for name in words("bartlett blackman hamming hann kaiser"):
    act = getattr(torch, f"{name}_window")
    add("fourier", f"{name}_window", lambda x, f=act: (x + f(6), x + f(6, periodic=False)), X)

# ---- axes, booleans and real results of ops on complex tensors

CUBE = torch.complex(normal(3, 3, 3), normal(3, 3, 3))
add("complex_likes", "movedim", lambda z: torch.movedim(z, (0, 1, 2), (2, 0, 1)), CUBE)
add("complex_likes", "fill", lambda z: torch.fill(z, True), Z)
for dtype in (torch.float64, torch.complex64):

    def of_dtype(z, d=dtype):
        likes = [torch.zeros_like(z, dtype=d), torch.ones_like(z, dtype=d), z.new_zeros(3, dtype=d)]
        return [*likes, z.new_ones(3, dtype=d), z.new_full((3,), 4, dtype=d)]

    add("complex_likes", f"likes_{dtype}", of_dtype, Z)
