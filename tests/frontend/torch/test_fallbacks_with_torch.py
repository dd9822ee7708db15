"""Ops that import by torch's decomposition, and remedies that error messages name."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402

import structir  # noqa: E402
from structir.errors import DiagnosticError  # noqa: E402
from structir.frontend.torch import from_exported_program, from_pt2, torch_op  # noqa: E402
from structir.frontend.torch.registry import _builds  # noqa: E402
from structir.script import R  # noqa: E402
from tests.frontend.torch.test_with_torch import Act, agree, exported, flat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
X, N = torch.randn(6, 4), torch.tensor(3)
REJECTED = {
    "diag_embed": lambda x: torch.diag_embed(x, offset=1),
    "label_smoothing": lambda x: F.cross_entropy(x, x.argmax(1), label_smoothing=0.1),
    "among_others": lambda x: torch.diag_embed(torch.diag_embed(x), offset=-1).relu(),
    "cdist": lambda x: torch.cdist(x, x + 1, p=1.0),
}


@torch.library.custom_op("structir_tests::opaque_negative", mutates_args=())
def opaque_negative(x: torch.Tensor) -> torch.Tensor:
    """Returns -x; an op without a decomposition, which StructIR has no mapping of."""
    return -x


opaque_negative.register_fake(torch.empty_like)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", REJECTED)
def test_rejected_arguments_are_decomposed(name: str, dynamic: bool) -> None:
    program = exported(REJECTED[name], (X,), dynamic)
    module = from_exported_program(program)
    agree(structir.interpret(module, "main", X.numpy()), flat(REJECTED[name](X)))


def test_the_mapping_that_a_hint_names_fixes_the_error() -> None:
    program = exported(lambda x: opaque_negative(x), (X,))
    stored = io.BytesIO()
    torch.export.save(program, stored)
    for load in (lambda: from_exported_program(program), lambda: from_pt2(stored)):
        with pytest.raises(DiagnosticError) as error:
            load()
        (name,) = re.findall(r'@torch_op\("(.*)"\)', str(error.value))
        try:
            torch_op(name)(lambda node: R.negative(node["x"]))
            agree(structir.interpret(load(), "main", X.numpy()), flat(-X))
        finally:
            _builds.pop(name, None)


def test_a_hint_of_a_file_to_decompose_fixes_the_error() -> None:
    program = exported(REJECTED["diag_embed"], (X,))
    stored = io.BytesIO()
    torch.export.save(program, stored)
    with pytest.raises(DiagnosticError, match=r"`ep = ep.run_decompositions\(\)`"):
        from_pt2(stored)
    stored = io.BytesIO()
    torch.export.save(program.run_decompositions(), stored)
    module = from_pt2(stored)
    agree(structir.interpret(module, "main", X.numpy()), flat(torch.diag_embed(X, offset=1)))


def test_a_mapping_of_a_user_replaces_one_that_rejects() -> None:
    program = exported(lambda x: opaque_negative(x), (X,))
    names = [":structir_tests.opaque_negative.default"]
    try:
        torch_op(*names)(lambda node: node.fail("expected rank 1, found rank 2"))
        with pytest.raises(DiagnosticError, match="expected rank 1, found rank 2") as error:
            from_exported_program(program)
        names += re.findall(r'@torch_op\("(.*)"\)', str(error.value))
        torch_op(names[1])(lambda node: R.negative(node["x"]))
        module = from_exported_program(program)
        agree(structir.interpret(module, "main", X.numpy()), flat(-X))
    finally:
        for name in names:
            _builds.pop(name, None)


def test_the_error_of_a_decomposed_op_is_that_of_its_mapping() -> None:
    with pytest.raises(DiagnosticError, match="alpha dropout in training mode") as error:
        from_exported_program(exported(lambda x: F.alpha_dropout(x, 0.5, True), (X,)))
    assert "model.eval()" in str(error.value)


def count(n: Any, low: int, high: int) -> Any:
    value = n.item()
    torch._check(value >= low)
    torch._check(value <= high)
    return value


READ = {
    "head": lambda x, n: x[: count(n, 0, 6)] * 2,
    "tail": lambda x, n: x[-count(n, 0, 5) - 1 :],
    "from_the_end": lambda x, n: x[count(-n, -6, -1) :],
    "narrow": lambda x, n: x.narrow(0, count(n, 0, 4), 2),
    "element": lambda x, n: x[count(n, 0, 5)],
    "range": lambda x, n: torch.arange(count(n, 1, 50), 2 * n.item() + 5),
    "shifted_range": lambda x, n: (lambda k: torch.arange(k, k + 4))((n - 5).item()),
    "full": lambda x, n: torch.full((count(n, 1, 9), 3), 2.5),
    "triangle": lambda x, n: torch.ones(count(n, 2, 9), n.item()).tril(),
    "split": lambda x, n: x.split([count(n, 0, 6), 6 - n.item()])[1],
    "rotated": lambda x, n: (lambda k: torch.cat([x[k:], x[:k]]))(count(n, 0, 6)),
    "write": lambda x, n: torch.zeros(6, 4).index_fill(0, torch.arange(count(n, 0, 6)), 1.0),
    "condition": lambda x, n: torch.cond(
        n.item() > 2, lambda x: x + 1, lambda x: x - 1, (x,)
    ),
    "masked": lambda x, n: (lambda y: (y @ y.T, torch.arange(y.shape[0])))(x[x[:, 0] > 0]),
    "padded": lambda x, n: torch.zeros_like(x).masked_scatter(x > 0, x[x > 0]),
    "roll": lambda x, n: torch.roll(x, (n - 4).item(), 0),
    "diagonal": lambda x, n: torch.tril(x, (n - 4).item()),
}  # fmt: skip


@pytest.mark.parametrize("functional", [False, True], ids=["as it is", "functional"])
@pytest.mark.parametrize("name", READ)
def test_sizes_from_tensors(name: str, functional: bool) -> None:
    act = READ[name]
    auto = torch.export.Dim.AUTO
    sizes = {"operands": ({1: auto}, None)}
    try:
        program = torch.export.export(Act(act), (X, N), dynamic_shapes=sizes)
    except Exception as error:  # torch cannot export the case
        pytest.skip(str(error)[:80])
    program = program.run_decompositions() if functional else program
    module = from_exported_program(program)
    compiled = structir.compile(module)["main"]
    for k in (2, 3, 4):
        operands = X.numpy(), np.asarray(k)
        expected = flat(act(X, torch.tensor(k)))
        agree(structir.interpret(module, "main", *operands), expected)
        agree(compiled(*operands), expected)
