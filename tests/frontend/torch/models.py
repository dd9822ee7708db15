"""Models of plain torch.nn that are exported with dynamic sizes, with operands of several sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from tests.frontend.torch import complex_models, zoo

BATCH = Dim("batch", min=1, max=64)
LENGTH = Dim("length", min=2, max=128)


@attrs.frozen
class Example:
    """A model, operands to export it with, its dynamic sizes, and operands of other sizes."""

    model: nn.Module
    operands: tuple[Any, ...]
    dynamic: Any
    others: tuple[tuple[Any, ...], ...]


class Residual(nn.Module):
    def __init__(self, channels: int, grown: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, grown, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(grown)
        self.second = nn.Conv2d(grown, grown, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(grown)
        plain = stride == 1 and channels == grown
        self.short = nn.Identity() if plain else nn.Conv2d(channels, grown, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.first(x)), inplace=True)
        return F.relu(self.norm2(self.second(y)) + self.short(x), inplace=True)


class ResNet(nn.Module):
    """Residual blocks, a depthwise one, a global pool and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2))
        self.depthwise = nn.Conv2d(32, 32, 3, 1, 1, groups=32)
        self.pointwise = nn.Conv2d(32, 48, 1)
        self.act = nn.Hardswish()
        self.classify = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.pool(self.stem(x)))
        x = self.act(self.pointwise(self.depthwise(x)))
        return self.classify(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor, seen: Tensor, causal: bool = False) -> Tensor:
        q, k, v = (
            self.split(self.query(x)),
            self.split(self.key(seen)),
            self.split(self.value(seen)),
        )
        made = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(made.transpose(1, 2).reshape(x.shape))


class Encoder(nn.Module):
    """Embeddings with positions, and blocks of attention and a wide layer; texts of any length."""

    def __init__(self, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(100, width), nn.Embedding(128, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.ModuleList(layer if k == 0 else self._another(width) for k in range(depth))
        self.norm = nn.LayerNorm(width)

    @staticmethod
    def _another(width: int) -> nn.Module:
        return nn.TransformerEncoderLayer(width, 4, 64, 0.1, "gelu", batch_first=True)

    def forward(self, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask)
        x = self.norm(x)
        kept = (~mask).unsqueeze(-1).to(x.dtype)
        return {"all": x, "mean": (x * kept).sum(1) / kept.sum(1).clamp(min=1)}


class Norm(nn.Module):
    """RMS normalization in the form that many decoders use."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Decoder(nn.Module):
    """A causal block with rotary positions, gated units and attention to another text."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.own, self.other = Attention(width, 4), Attention(width, 4)
        self.norms = nn.ModuleList(Norm(width) for _ in range(3))
        self.gate, self.up = nn.Linear(width, 64, bias=False), nn.Linear(width, 64, bias=False)
        self.down = nn.Linear(64, width, bias=False)
        self.register_buffer("rates", 1.0 / 100 ** (torch.arange(0, width, 2) / width))

    def turned(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1])[:, None] * self.rates
        a, b = x[..., ::2], x[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        y = self.norms[0](x)
        x = x + self.own(self.turned(y), y, causal=True)
        x = x + self.other(self.norms[1](x), seen)
        y = self.norms[2](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Cached(nn.Module):
    """One step of a decoder with a cache that it grows, and a table that it writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(4, 8))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.project(x).chunk(3, -1)
        keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        made = F.softmax(q @ keys.transpose(1, 2) / math.sqrt(8), -1) @ values
        self.steps += 1
        self.seen[1:3, ::2] = made.mean((0, 1))[::2]
        self.seen[0].mul_(2).add_(1.0)
        return made, keys, values


class Tagger(nn.Module):
    """A bidirectional LSTM and a GRU over steps of a known number, batches of any."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 16, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(32, 8)
        self.rnn = nn.RNN(8, 6, nonlinearity="relu", bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (last, _) = self.lstm(x)
        z, _ = self.gru(y.transpose(0, 1))
        w, h = self.rnn(z)
        return w.transpose(0, 1), last, h


class UNet(nn.Module):
    """A U-Net: downsampling, upsampling and skip connections; images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.middle = nn.Conv2d(16, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.up1, self.up2 = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(24, 8, 3, padding=1)
        self.out = nn.Conv2d(16, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.silu(self.down1(x))
        b = F.silu(self.down2(F.max_pool2d(a, 2)))
        c = F.silu(self.norm(self.middle(F.avg_pool2d(b, 2))))
        c = F.interpolate(c, size=b.shape[2:], mode="bilinear")
        d = self.up2(torch.cat([b, self.up1(c)[:, :, : b.shape[2], : b.shape[3]]], 1))
        d = F.interpolate(d, size=a.shape[2:], mode="nearest")
        return torch.sigmoid(self.out(torch.cat([a, d], 1)))


class Chooser(nn.Module):
    """A data-dependent conditional, and a loop with a data-dependent trip count."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = (
            nn.Linear(6, 6),
            nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6)),
        )

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        chosen = torch.cond(x.sum() > 0, lambda x: self.small(x) + 1, lambda x: self.large(x), (x,))
        with torch.no_grad():
            chosen = chosen * 2
        steps, halved = torch._higher_order_ops.while_loop(
            lambda k, v: v.abs().max() > 0.1, lambda k, v: (k + 1, v / 2), (torch.tensor(0), y)
        )
        return chosen, steps, halved


class Selector(nn.Module):
    """Data-dependent sizes."""

    def forward(self, x: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = x[x[:, 0] > 0]
        n = count.item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return found * 2, torch.nonzero(x > 1), x.narrow(0, 0, n).sum(0)


class Clamped(nn.Module):
    """Slices that are shorter for an input of one row, where torch records two rows."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        first, last = x[:2], x[-2:] * 2
        flat = first.reshape(-1).sum() + last.flatten().amax()
        return first.mean(0) + flat, torch.cat([last, x]), first.expand(-1, 3) + 1, last.softmax(0)


class Extremes(nn.Module):
    """Arithmetic with numbers that are read from a tensor and may be negative."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        least = x.min().item()
        assert least <= x.shape[0] + 5
        number = (2 * least + x.shape[0]) // 3 % 4 - 1
        return (
            y * least,
            y + number,
            y * (number / 4),
            y * torch.sym_max(least, -2),
            y * torch.sym_float(-least),
        )


class Writer(nn.Module):
    """Writes in place through views, and into an operand."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.zeros(x.shape[0], 4, 3)
        y[:, 1] = x.sum(1, keepdim=True)
        rows = y.transpose(1, 2)
        rows[:, 0, 2:].fill_(7.0)
        view = y.view(-1, 3)
        view[0].copy_(torch.tensor([1.0, 2.0, 3.0]))
        first, second = y[:, :2].split(1, dim=1)
        second.mul_(2)
        with torch.no_grad():
            x.clamp_(min=0)
            y[-1] = y[0] + 1
        y[y > 6] = -1.0
        return y, rows + 0, first


class Resizer(nn.Module):
    """Scale factors whose float products with sizes are rounded, and symbolic pads, which crop
    where they are negative."""

    def forward(self, x: Tensor) -> list[Tensor]:
        resized = nn.functional.interpolate(x, scale_factor=(1.7, 1 / 3), mode="bilinear")
        padded = nn.functional.pad(x, (x.shape[3] - 1, 0, 0, 0), mode="reflect")
        filled = nn.functional.pad(x, (0, 8 - x.shape[3], 1, 0), value=2.0)
        repeated = nn.functional.pad(x, (0, 0, 0, x.shape[2]), mode="replicate")
        return [resized, padded, filled, repeated]


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 5)
    )


def image(batch: int, *sizes: int) -> Tensor:
    return torch.randn(batch, *sizes)


def tokens(batch: int, length: int) -> tuple[Tensor, Tensor]:
    mask = torch.arange(length)[None] >= torch.randint(1, length + 1, (batch, 1))
    return torch.randint(0, 100, (batch, length)), mask


def cached(batch: int, past: int) -> tuple[Tensor, Tensor, Tensor]:
    return image(batch, 1, 8), image(batch, past, 8), image(batch, past, 8)


def of(
    make: Callable[..., Any], model: nn.Module, dynamic: Any, *sizes: tuple[int, ...]
) -> Example:
    """A model, and a function from sizes to operands; the first operands are for the export."""
    made = [make(*s) for s in sizes]
    listed = [m if isinstance(m, tuple) else (m,) for m in made]
    return Example(model.eval(), listed[0], dynamic, tuple(listed[1:]))


def examples() -> dict[str, Example]:
    """Returns all models by name."""
    torch.manual_seed(7)
    rows, columns = Dim("rows", min=4, max=64), Dim("columns", min=4, max=64)
    text = {0: BATCH, 1: LENGTH}
    past, other = Dim("past", min=1, max=100), Dim("other", min=2, max=99)
    return {
        "mlp": of(lambda b: image(b, 20), mlp(), ({0: BATCH},), (3,), (1,), (17,)),
        "resnet": of(
            lambda b, s: image(b, 3, s, s), ResNet(), ({0: BATCH},), (2, 32), (1, 32), (5, 32)
        ),
        "encoder": of(tokens, Encoder(), (text, text), (2, 7), (1, 3), (3, 20)),
        "decoder": of(
            lambda b, n, m: (image(b, n, 32), image(b, m, 32)),
            Decoder(),
            (text, {0: BATCH, 1: other}),
            (2, 7, 5),
            (1, 3, 9),
            (2, 16, 4),
        ),
        "cached": of(
            cached,
            Cached(),
            ({0: BATCH}, {0: BATCH, 1: past}, {0: BATCH, 1: past}),
            (2, 5),
            (1, 1),
            (3, 9),
        ),
        "tagger": of(lambda b: image(b, 6, 12), Tagger(), ({0: BATCH},), (2,), (1,), (5,)),
        "unet": of(
            lambda b, h, w: image(b, 1, h, w),
            UNet(),
            ({0: BATCH, 2: 8 * rows, 3: 8 * columns},),
            (2, 48, 40),
            (1, 32, 64),
            (3, 40, 32),
        ),
        "chooser": of(
            lambda b: (image(b, 6), image(b, 2)),
            Chooser(),
            ({0: BATCH}, {0: BATCH}),
            (3,),
            (1,),
            (4,),
        ),
        "selector": Example(
            Selector().eval(),
            (image(6, 3), torch.tensor(2)),
            ({0: BATCH}, None),
            ((image(9, 3), torch.tensor(0)), (image(2, 3), torch.tensor(2))),
        ),
        "clamped": of(lambda n: image(n, 3), Clamped(), ({0: Dim.AUTO},), (5,), (1,), (3,)),
        "extremes": Example(
            Extremes().eval(),
            (torch.tensor([3, -2, 5, 7]), image(3)),
            ({0: BATCH}, None),
            ((torch.tensor([1]), image(3)), (torch.tensor([-7, 1, 1, 1, 1]), image(3))),
        ),
        "writer": of(lambda b: image(b, 3), Writer(), ({0: BATCH},), (2,), (1,), (5,)),
        "resizer": of(
            lambda b, h, w: image(b, 1, h, w),
            Resizer(),
            ({0: BATCH, 2: Dim.AUTO, 3: Dim.AUTO},),
            (2, 7, 12),
            (1, 10, 9),
            (3, 30, 6),
        ),
        **_known(text),
        **_complex(),
    }


def _complex() -> dict[str, Example]:
    length, samples = Dim("length", min=2, max=64), Dim("samples", min=32, max=400)
    rows, columns = Dim("rows", min=6, max=64), Dim("columns", min=6, max=64)
    return {
        "spectral": of(
            lambda b, h, w: image(b, 3, h, w),
            complex_models.SpectralConvolution(),
            ({0: BATCH, 2: rows, 3: columns},),
            (2, 8, 10),
            (1, 7, 6),
            (3, 6, 9),
        ),
        "global_filter": of(
            lambda b: image(b, 6, 6, 8), complex_models.GlobalFilter(), ({0: BATCH},), (2,), (1,)
        ),
        "rotary": of(
            lambda b, n: image(b, n, 2, 8),
            complex_models.Rotary(),
            ({0: BATCH, 1: length},),
            (2, 7),
            (1, 2),
        ),
        "diagonal_state_space": of(
            lambda b, n: image(b, 4, n),
            complex_models.DiagonalStateSpace(),
            ({0: BATCH, 2: length},),
            (2, 9),
            (1, 16),
        ),
        "spectrogram": of(
            lambda b, n: image(b, n),
            complex_models.Spectrogram(),
            ({0: BATCH, 1: samples},),
            (2, 200),
            (1, 77),
        ),
        "transformed": of(
            lambda b, n: torch.randn(b, n, 3, dtype=torch.cfloat),
            complex_models.Transformed(),
            ({0: BATCH, 1: length},),
            (2, 5),
            (1, 8),
        ),
    }


def _known(text: dict[int, Any]) -> dict[str, Example]:
    high, wide = Dim("high", min=1, max=10), Dim("wide", min=1, max=10)
    many, long = Dim("many", min=6, max=99), Dim("long", min=10, max=200)
    boxes = ({0: BATCH, 1: many}, {0: BATCH, 1: many})
    return {
        "shifted": of(
            lambda b, h, w: image(b, 4 * h, 4 * w, 16),
            zoo.Shifted(),
            ({0: BATCH, 1: 4 * high, 2: 4 * wide},),
            (2, 2, 3),
            (1, 1, 1),
            (3, 3, 2),
        ),
        "relative": of(lambda b, t: image(b, t, 8), zoo.Relative(), (text,), (2, 7), (1, 40)),
        "generator": of(
            lambda t: (image(2, t, 16), torch.arange(3, 3 + t)),
            zoo.Generator(),
            ({1: LENGTH}, {0: LENGTH}),
            (5,),
            (2,),
        ),
        "state_space": of(lambda b, t: image(b, t, 8), zoo.StateSpace(), (text,), (2, 7), (3, 3)),
        "detector": of(
            lambda b, n: (image(b, n, 4), torch.rand(b, n, 4)),
            zoo.Detector(),
            boxes,
            (2, 9),
            (1, 30),
        ),
        "audio": of(
            lambda b, n: image(b, 10 * n),
            zoo.Audio(),
            ({0: BATCH, 1: 10 * long},),
            (2, 12),
            (1, 20),
        ),
    }
