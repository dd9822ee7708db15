"""Models that compute with complex numbers: spectral layers, rotary embedding, state space."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class SpectralConvolution(nn.Module):
    """A layer of a Fourier neural operator: complex weights of the low frequencies."""

    def __init__(self, channels: int = 3, modes: int = 3) -> None:
        super().__init__()
        self.modes = modes
        shape = channels, channels, modes, modes
        self.low = nn.Parameter(torch.randn(*shape, dtype=torch.cfloat))
        self.high = nn.Parameter(torch.randn(*shape, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        k, spectrum = self.modes, torch.fft.rfft2(x)
        result = torch.zeros_like(spectrum)
        product = "bixy,ioxy->boxy"
        result[:, :, :k, :k] = torch.einsum(product, spectrum[:, :, :k, :k], self.low)
        result[:, :, -k:, :k] = torch.einsum(product, spectrum[:, :, -k:, :k], self.high)
        return torch.fft.irfft2(result, s=x.shape[-2:])


class GlobalFilter(nn.Module):
    """A layer that multiplies the spectrum of an image by learned pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs = nn.Parameter(torch.randn(6, 4, 8, 2))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
        filtered = spectrum * torch.view_as_complex(self.pairs)
        return torch.fft.irfft2(filtered, s=x.shape[1:3], dim=(1, 2), norm="ortho")


class Rotary(nn.Module):
    """Rotary embedding by a complex buffer."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        frequencies = 1.0 / 10000 ** (torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(64.0), frequencies)
        self.register_buffer("rotations", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        rotated = pairs * self.rotations[: x.shape[1]].unsqueeze(1)
        return torch.view_as_real(rotated).flatten(3)


class DiagonalStateSpace(nn.Module):
    """S4D: the kernel is a sum of complex exponentials, and the convolution is done by FFT."""

    def __init__(self, heads: int = 4, states: int = 6) -> None:
        super().__init__()
        self.pairs = nn.Parameter(torch.randn(heads, states, 2))
        self.log_step = nn.Parameter(torch.rand(heads))
        self.log_decay = nn.Parameter(torch.full((heads, states), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(states).repeat(heads, 1).float())

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[-1]
        rates = -torch.exp(self.log_decay) + 1j * self.frequency
        steps = rates * torch.exp(self.log_step).unsqueeze(-1)
        weights = torch.view_as_complex(self.pairs) * (torch.exp(steps) - 1) / rates
        powers = torch.exp(steps.unsqueeze(-1) * torch.arange(length))
        kernel = 2 * torch.einsum("hn,hnl->hl", weights, powers).real
        spectrum = torch.fft.rfft(kernel, n=2 * length) * torch.fft.rfft(x, n=2 * length)
        return torch.fft.irfft(spectrum, n=2 * length)[..., :length]


class Spectrogram(nn.Module):
    """Logarithms of a mel spectrogram."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("bands", torch.rand(5, 17))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.stft(x, 32, 8, window=self.window, return_complex=True)
        return torch.clamp(self.bands @ (spectrum.abs() ** 2), min=1e-10).log10()


class Transformed(nn.Module):
    """A complex input and a complex output, of symbolic sizes."""

    def forward(self, z: Tensor) -> Any:
        return torch.fft.fft2(z), (z * z.conj()).real.sum(-1)
