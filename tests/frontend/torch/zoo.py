"""More models: parts of known architectures in their usual form."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Shifted(nn.Module):
    """Attention in shifted windows, with a table of relative positions."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.norm = nn.Linear(16, 48), nn.LayerNorm(16)
        self.bias = nn.Parameter(torch.randn(49, 2))
        where = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
        flat = torch.stack(where).flatten(1)
        apart = (flat[:, :, None] - flat[:, None]).permute(1, 2, 0) + 3
        self.register_buffer("places", apart[..., 0] * 7 + apart[..., 1])

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        y = torch.roll(self.norm(x), (-2, -2), (1, 2)).view(b, h // 4, 4, w // 4, 4, c)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.project(y).reshape(-1, 16, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.bias[self.places.view(-1)].view(16, 16, 2).permute(2, 0, 1).unsqueeze(0)
        weights = (q * 8**-0.5 @ k.transpose(-2, -1) + bias).softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(-1, 16, c).view(b, h // 4, w // 4, 4, 4, c)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return x + torch.roll(y, (2, 2), (1, 2))


class Relative(nn.Module):
    """Attention with logarithmic buckets of relative positions."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Embedding(16, 2)
        self.query, self.key, self.value = (nn.Linear(8, 8, bias=False) for _ in range(3))

    @staticmethod
    def bucket(apart: Tensor) -> Tensor:
        sign, far = (apart > 0).long() * 8, apart.abs()
        share = torch.log(far.float().clamp(min=1) / 4) / math.log(128 / 4)
        large = 4 + (share * 4).long()
        large = torch.min(large, torch.full_like(large, 7))
        return sign + torch.where(far < 4, far, large)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        places = torch.arange(t)
        bias = self.bias(self.bucket(places[None] - places[:, None])).permute(2, 0, 1)[None]
        q, k, v = (
            p(x).view(b, -1, 2, 4).transpose(1, 2) for p in (self.query, self.key, self.value)
        )
        weights = F.softmax((q @ k.transpose(3, 2) + bias).float(), -1).type_as(q)
        return (weights @ v).transpose(1, 2).contiguous().view(b, -1, 8)


class Generator(nn.Module):
    """A step of grouped-query attention with rotary positions and a cache of fixed size."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.both = nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("keys", torch.zeros(2, 2, 32, 4))
        self.register_buffer("values", torch.zeros(2, 2, 32, 4))
        self.register_buffer("rates", 1 / 1e4 ** (torch.arange(0, 4, 2).float() / 4))

    def turned(self, x: Tensor, at: Tensor) -> Tensor:
        angles = torch.outer(at.float(), self.rates)
        angles = torch.cat([angles, angles], -1)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        b, t, _ = x.shape
        q = self.turned(self.query(x).view(b, t, 4, 4).transpose(1, 2), at)
        k, v = self.both(x).view(b, t, 2, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys.index_copy_(2, at, self.turned(k, at))
        self.values[:, :, at] = v
        seen = torch.where(torch.arange(32)[None] <= at[:, None], 0.0, float("-inf"))
        made = F.scaled_dot_product_attention(
            q, self.keys, self.values, attn_mask=seen, enable_gqa=True
        )
        return made.transpose(1, 2).flatten(2)


class StateSpace(nn.Module):
    """A state-space scan along a sequence after a short convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.decay, self.inner = nn.Parameter(-torch.rand(8)), nn.Linear(8, 17)
        self.short = nn.Conv1d(8, 8, 4, padding=3, groups=8)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        x = F.silu(self.short(x.transpose(1, 2))[..., :t].transpose(1, 2))
        rate, into, out = self.inner(x).split([1, 8, 8], -1)
        rate = F.softplus(rate)

        def step(state: Tensor, now: Any) -> tuple[Tensor, Tensor]:
            rate, x, into, out = now
            state = state * torch.exp(rate * self.decay) + rate * x * into
            return state.clone(), (state * out).clone()

        read = tuple([v.transpose(0, 1) for v in (rate, x, into, out)])
        _, made = torch._higher_order_ops.scan(step, torch.zeros(b, 8), read)
        return made.transpose(0, 1)


class Detector(nn.Module):
    """The best boxes, with non-maximum suppression."""

    def forward(self, scores: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        best, label = scores.sigmoid().max(-1)
        top, at = best.topk(5, 1)
        chosen = torch.gather(boxes, 1, at[..., None].expand(-1, -1, 4))
        half = chosen[..., 2:] / 2
        corners = torch.cat([chosen[..., :2] - half, chosen[..., :2] + half], -1)
        low = torch.max(corners[:, :, None, :2], corners[:, None, :, :2])
        high = torch.min(corners[:, :, None, 2:], corners[:, None, :, 2:])
        common = (high - low).clamp(min=0).prod(-1)
        area = (corners[..., 2:] - corners[..., :2]).prod(-1)
        share = common / (area[:, :, None] + area[:, None] - common + 1e-6)
        kept = ~(share.triu(1) > 0.5).any(1)
        label = torch.where(kept, label.gather(1, at), torch.full_like(at, -1))
        return top * kept, label, corners


class Audio(nn.Module):
    """Waves through strided convolutions, a normalised grouped one, and up again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv1d(1, 8, 10, 5), nn.GroupNorm(8, 8), nn.GELU(), nn.Conv1d(8, 8, 3, 2), nn.GELU()
        )
        places = nn.Conv1d(8, 8, 4, padding=2, groups=2)
        self.places = nn.utils.parametrizations.weight_norm(places)
        self.norm, self.up = nn.LayerNorm(8), nn.ConvTranspose1d(8, 4, 4, 2, 1)
        self.last = nn.InstanceNorm1d(4, affine=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.first(x[:, None])
        y = y + F.gelu(self.places(y)[:, :, :-1])
        y = self.norm(y.transpose(1, 2)).transpose(1, 2)
        z = self.last(F.pad(self.up(y), (3, 3), mode="reflect"))
        loud = z.abs().amax((1, 2)).clamp_min(1e-3).log10()
        return torch.tanh(z), F.log_softmax(y, 1).argmax(1), loud
