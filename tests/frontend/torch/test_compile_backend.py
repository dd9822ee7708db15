"""`torch.compile` with the backend of StructIR, compared with eager execution."""

from __future__ import annotations

import copy
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from structir.errors import DiagnosticWarning  # noqa: E402
from structir.frontend.torch import dynamo, structir_backend  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
REASON = "torch.compile: a graph runs in torch"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._dynamo.config.patch(allow_rnn=True):
        yield
    torch._dynamo.reset()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are compiled during a test."""
    compiled: list[Any] = []
    build = dynamo.from_traced

    def recorded(program: Any) -> Any:
        compiled.append(program)
        return build(program)

    monkeypatch.setattr(dynamo, "from_traced", recorded)
    return compiled


def compiled_of(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=structir_backend, dynamic=True, options=options or None)


def leaves(value: Any) -> list[Any]:
    return [torch.as_tensor(leaf) for leaf in torch.utils._pytree.tree_leaves(value)]


def strides(tensor: Any) -> list[int]:
    return [s for s, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def assert_same(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    pairs = list(zip(leaves(found), leaves(expected), strict=True))
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        assert strides(a) == strides(b)
        assert a.storage_offset() == b.storage_offset()


# ---- inference

FUNCTIONS = {
    "elementwise": lambda x, y: (torch.relu(x) * y[:1]).exp() + x.shape[0],
    "views of inputs": lambda x, y: (x.T, x[1:], torch.chunk(x, 2, dim=1), y.unfold(0, 2, 1), x),
    "views of results": lambda x, y: ((x + 1).T, (x * 2)[:, 1:], (y + 1).expand(2, *y.shape)),
    "sizes": lambda x, y: (x.shape[0] * 2 + y.shape[1], x.numel() / 3, x.new_zeros(x.shape[0] + 1)),
    "integers": lambda x, y: (x.argmax(1), torch.topk(y, 2, dim=0), (x > y[:1]).sum()),
    "dtypes": lambda x, y: (
        x.bfloat16() @ y.bfloat16().T,
        x.half() + 1,
        x.double().sum(),
        x.bool(),
    ),
    "complex": lambda x, y: (torch.fft.fft(x), torch.view_as_complex(x[:, :2]) * 2j),
    "conditional": lambda x, y: torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a * 2, (x,)),
    "constants": lambda x, y: x * torch.tensor([1.0, -2.0, 3.0, 0.5]),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
    "data-dependent": lambda x, y: (x[x > 0], torch.nonzero(y)),
    "only inputs": lambda x, y: (y, x),
    "the same twice": lambda x, y: (z := x @ y.T, z, [z.sum()]),
    "checks": lambda x, y: torch.linalg.inv(x.T @ x + 4 * torch.eye(4)),
    "in place": lambda x, y: x.clone().index_fill_(0, torch.tensor([0]), 1.0).add_(2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_run_for_all_sizes(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = compiled_of(function)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=f".*{REASON}", category=DiagnosticWarning)
        for rows, others in ((5, 3), (6, 2), (9, 4), (1, 5)):
            x, y = torch.randn(rows, 4), torch.randn(others, 4)
            loose = 2e-2 if name == "dtypes" else 1e-4
            assert_same(compiled(x, y), function(x, y), loose)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(4, 8), nn.BatchNorm1d(8)
        self.second = nn.Linear(8, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Any, scale: float = 1.0) -> dict[str, Any]:
        self.calls += 1
        hidden = F.gelu(self.norm(self.first(x)))
        return {"scores": self.second(hidden) * scale, "hidden": hidden}


def test_a_model_is_compiled_once_for_all_sizes(graphs: list[Any]) -> None:
    model = Layers().eval()
    reference = copy.deepcopy(model)
    compiled = compiled_of(model)
    with torch.no_grad():
        for rows in (5, 3, 17):
            x = torch.randn(rows, 4)
            assert_same(compiled(x), reference(x))
    assert len(graphs) == 1
    assert model.calls == reference.calls == 3  # a buffer that the model writes


def test_parameters_may_change_between_calls() -> None:
    model = Layers().eval()
    compiled = compiled_of(model)
    x = torch.randn(5, 4)
    with torch.no_grad():
        compiled(x)
        model.first.weight.mul_(2)
        model.second.bias.data = torch.ones(3)
        assert_same(compiled(x), model(x))


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}])
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
def test_fused_encoder_layers(options: dict[str, Any], mask: str) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **options)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    hidden = torch.zeros(3, 7, dtype=torch.bool)
    hidden[1, 5:] = True
    causal = torch.ones(7, 7, dtype=torch.bool).triu(1)

    def function(x: Any) -> Any:
        padding = hidden[: x.shape[0]] if mask == "padding" else None
        return model(x, mask=causal if mask == "causal" else None, src_key_padding_mask=padding)

    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("error", message=f".*{REASON}", category=DiagnosticWarning)
        compiled = compiled_of(function)
        for rows in (3, 2):
            x = torch.randn(rows, 7, 32)
            assert_same(compiled(x), function(x))


def test_inputs_of_other_layouts() -> None:
    function = FUNCTIONS["elementwise"]
    compiled = compiled_of(function)
    x, y = torch.randn(4, 5).T, torch.randn(9, 4)[::2]
    torch.testing.assert_close(compiled(x, y), function(x, y))


# ---- training


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8, bias=False)
        self.up, self.head = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Linear(4, 5)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm(self.depthwise(F.silu(self.first(x))))), 2)
        x = F.avg_pool2d(self.up(x), 2)
        return self.head(F.adaptive_avg_pool2d(x, (2, 1)).flatten(2).transpose(1, 2))


class Attention(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(11, 16), nn.LayerNorm(16)
        self.project, self.head = nn.Linear(16, 48), nn.Linear(16, 11)
        self.causal = causal

    def forward(self, tokens: Any) -> Any:
        x = self.project(self.norm(self.words(tokens)))
        query, key, value = x.view(*tokens.shape, 3, 4, 4).permute(2, 0, 3, 1, 4)
        mask = None
        if not self.causal:
            length = tokens.shape[1]
            mask = torch.zeros(length, length).masked_fill(
                torch.ones(length, length).triu(1) > 0, -9
            )
        x = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=self.causal)
        scores = self.head(x.transpose(1, 2).flatten(2)).flatten(0, 1)
        return F.cross_entropy(scores, tokens.flatten(), ignore_index=3)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.norm = nn.LSTM(6, 5, batch_first=True), nn.GroupNorm(2, 6)

    def forward(self, x: Any) -> Any:
        hidden, _ = self.cell(self.norm(x.transpose(1, 2)).transpose(1, 2))
        return hidden.cumsum(1) * torch.sigmoid(hidden)


class Others(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))

    def forward(self, x: Any) -> Any:
        y = F.interpolate(x[:, None], scale_factor=2, mode="bilinear")[:, 0, :, ::2]
        y = F.leaky_relu(y) @ self.weight + F.adaptive_max_pool2d(y[:, None], (2, 2)).mean()
        z = F.pad(y, (1, 2), value=0.5).clamp(-1, 1).sort(-1).values
        inverse = torch.linalg.inv(self.weight + 6 * torch.eye(6))
        return torch.einsum("bij,bik->jk", y, y).logsumexp(0) @ inverse + z.std() + x.amax(1).sum()


class Scores(Layers):
    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return super().forward(x, scale)["scores"]


TRAINED = {
    "convolutions": (Convolutions, lambda n: torch.randn(n, 3, 32, 32)),
    "causal attention": (lambda: Attention(True), lambda n: torch.randint(0, 11, (2, n))),
    "masked attention": (lambda: Attention(False), lambda n: torch.randint(0, 11, (2, n))),
    "recurrent": (Recurrent, lambda n: torch.randn(n, 7, 6)),
    "others": (Others, lambda n: torch.randn(n, 5, 6)),
    "layers": (Scores, lambda n: torch.randn(n, 4)),
}


@pytest.mark.parametrize("name", TRAINED)
def test_gradients_equal_those_of_torch(name: str, graphs: list[Any]) -> None:
    build, sample = TRAINED[name]
    model = build()
    reference = copy.deepcopy(model)
    compiled = compiled_of(model)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=f".*{REASON}", category=DiagnosticWarning)
        for size in (9, 8, 11):  # torch gives axes of equal sizes one symbol
            x = sample(size)
            inputs = [x, x.clone()]
            if x.is_floating_point():
                inputs = [value.requires_grad_() for value in inputs]
            results = compiled(inputs[0]), reference(inputs[1])
            assert_same(*results)
            weights = torch.randn_like(results[1])
            for result in results:
                (result * weights).sum().backward()
            pairs = [*zip(model.parameters(), reference.parameters(), strict=True), tuple(inputs)]
            for a, b in pairs:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3)
            for a, b in zip(model.buffers(), reference.buffers(), strict=True):
                torch.testing.assert_close(a, b)
    assert len(graphs) == 2  # one forward, one backward graph


def test_steps_of_an_optimiser() -> None:
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    reference = copy.deepcopy(model)
    compiled = compiled_of(model)
    losses = []
    for net, parameters in ((compiled, model.parameters()), (reference, reference.parameters())):
        generator = torch.Generator().manual_seed(1)
        optimiser = torch.optim.Adam(parameters, lr=0.01)
        for _ in range(20):
            x = torch.randn(32, 4, generator=generator)
            loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        losses.append(loss.detach())
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-3, atol=1e-4)


# ---- random ops


def test_dropout_samples_anew_at_each_call(graphs: list[Any]) -> None:
    compiled = compiled_of(lambda x: F.dropout(x, 0.25, training=True))
    x = torch.ones(200, 50, requires_grad=True)
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    for result in (first, second):
        torch.testing.assert_close(result.unique(), torch.tensor([0.0, 1 / 0.75]))
        assert abs(float((result == 0).float().mean()) - 0.25) < 0.03
    second.sum().backward()
    torch.testing.assert_close(x.grad, second.detach())  # the mask of the forward graph
    torch.manual_seed(3)
    once = compiled(x)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(x), once)
    assert len(graphs) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.rand_like(x) + torch.rand(x.shape[0], 2).sum(),
        lambda x: torch.randn_like(x) * x,
        lambda x: torch.randint(3, 7, (x.shape[0] + 1,)),
        lambda x: torch.randint_like(x, 5),
    ],
)
def test_random_tensors_are_those_of_torch(function: Any) -> None:
    compiled = compiled_of(function)
    for rows in (3, 5):
        x = torch.ones(rows, 4)
        torch.manual_seed(7)
        expected = function(x)
        torch.manual_seed(7)
        torch.testing.assert_close(compiled(x), expected)


# ---- fallbacks and options


def test_a_graph_that_is_not_supported_runs_in_torch_with_the_reason() -> None:
    def function(x: Any) -> Any:
        return torch.multinomial(x.abs(), 2) * 0 + x.shape[0]

    with pytest.warns(
        DiagnosticWarning, match=f"{REASON}.*multinomial.default: the op samples random numbers"
    ):
        result = compiled_of(function)(torch.ones(3, 4))
    assert torch.equal(result, function(torch.ones(3, 4)))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)])
def test_as_strided_reads_dense_tensors_in_the_order_of_memory(
    order: tuple[int, ...], graphs: list[Any]
) -> None:
    def function(x: Any) -> Any:
        view = x.permute(order)
        return view.as_strided((x.shape[0], 2, 3), (1, 3, 2), 1) * 2, x[:1].mT.as_strided(
            (4,), (2,)
        )

    x = torch.randn(3, 4, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DiagnosticWarning)
        assert_same(compiled_of(function)(x), function(x))
    assert graphs


def test_options_are_those_of_compile() -> None:
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled_of(torch.sin, num_threads=1, fast_math=True)(x), x.sin())
    with pytest.raises(Exception, match="unknown option 'threads'") as caught:
        compiled_of(torch.cos, threads=1)(x)
    assert "backend cpu" in str(caught.value)
    for options, text in (
        ({"num_threads": 0}, "num_threads must be a positive integer, found 0"),
        ({"fast_math": "no"}, "fast_math: expected True or False, found 'no'"),
    ):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=text):
            compiled_of(torch.tan, **options)(x)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="expected no mode for the backend structir"):
        torch.compile(torch.tan, backend=structir_backend, mode="max-autotune")(x)


def test_numbers_that_become_symbolic_may_be_negative() -> None:
    def function(x: Any, number: int) -> Any:
        return x * number + 1

    compiled = compiled_of(function)
    for number in (2, 3, -1, 0, -4, 5):
        assert_same(compiled(torch.ones(3), number), function(torch.ones(3), number))


def test_the_backend_is_registered_by_name() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    points = project["project"]["entry-points"]["torch_dynamo_backends"]
    assert points == {"structir": "structir.frontend.torch.dynamo:structir_backend"}
