"""Programs exported by an installed torch, with every size dynamic, compared with torch."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import structir  # noqa: E402
from structir.errors import StructIRError  # noqa: E402
from structir.frontend.torch import from_exported_program, from_pt2  # noqa: E402
from structir.frontend.torch.promotion import promote_dtypes  # noqa: E402
from structir.ir.expr import Var  # noqa: E402
from structir.ir.struct_info import TensorStructInfo  # noqa: E402
from tests.frontend.torch.complex_cases import GROUPS  # noqa: E402
from tests.frontend.torch.make_stored import flat, run, state_of  # noqa: E402
from tests.frontend.torch.models import examples  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
EVERY = [(group, case) for group, cases in GROUPS.items() for case in cases]
EXAMPLES = examples()


class Act(torch.nn.Module):
    def __init__(self, act: Any) -> None:
        super().__init__()
        self.act = act

    def forward(self, *operands: Any) -> Any:
        return self.act(*operands)


def exported(act: Any, operands: Any, dynamic: bool = False, strict: bool = False) -> Any:
    sizes = None
    if dynamic:
        auto = torch.export.Dim.AUTO
        sizes = {"operands": tuple([dict.fromkeys(range(o.ndim), auto) for o in operands])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(Act(act), operands, dynamic_shapes=sizes, strict=strict)


def agree(found: Any, expected: list[Any], closeness: float = 2e-5) -> None:
    found = list(found) if isinstance(found, tuple | list) else [found]
    assert len(found) == len(expected)
    for a, b in zip(map(np.asarray, found), expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        # Coefficients that cancel have the rounding of those that do not.
        largest = np.abs(b).max(initial=1, where=np.isfinite(b))
        np.testing.assert_allclose(a, b, rtol=closeness, atol=largest * closeness / 10)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: f"{case[0]}-{case[1][0]}")
def test_ops_of_dynamic_sizes(case: Any) -> None:
    _, (_, act, operands) = case
    module = from_exported_program(exported(act, operands, dynamic=True))
    given = flat(operands)
    agree(structir.interpret(module, "main", *given), flat(act(*operands)))


@pytest.mark.parametrize("functional", [False, True], ids=["as it is", "functional"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_models(name: str, functional: bool) -> None:
    example = EXAMPLES[name]
    model = copy.deepcopy(example.model)
    program = torch.export.export(model, example.operands, dynamic_shapes=example.dynamic)
    program = program.run_decompositions() if functional else program
    module = structir.compile(from_exported_program(program))["main"]
    others = [o for o in example.others if not functional or accepts(program, o)]
    for operands in (example.operands, *others):
        given, expected = run(example.model, operands, state_of(name))
        agree(module(*given), expected, 1e-4)


def accepts(program: Any, operands: tuple[Any, ...]) -> bool:
    """Whether torch runs a program with operands: its decompositions write sizes as numbers that
    only hold for the sizes of the export."""
    with contextlib.suppress(AssertionError):  # a guard on sizes, which StructIR does not need
        try:
            program.module()(*copy.deepcopy(operands))
        except RuntimeError:
            return False
    return True


def test_sizes_are_called_as_their_dims() -> None:
    batch = torch.export.Dim("batch", min=2)
    sizes = {"operands": ({0: batch},)}
    program = torch.export.export(Act(torch.relu), (torch.ones(3, 2),), dynamic_shapes=sizes)
    module = from_exported_program(program)
    assert str(module["main"].ret_struct_info) == 'R.Tensor((batch, 2), dtype="float32")'


AUTO, BATCH, FROM_3 = (
    torch.export.Dim.AUTO,
    torch.export.Dim("batch"),
    torch.export.Dim("batch", min=3),
)
ACCEPTED = {
    "auto": (torch.neg, {0: AUTO}),
    "two axes": (lambda x: x - x.mean(0), {0: AUTO, 1: AUTO}),
    "named": (torch.neg, {0: BATCH}),
    "from 1": (torch.neg, {0: torch.export.Dim("batch", min=1)}),
    "from 2": (torch.neg, {0: torch.export.Dim("batch", min=2)}),
    "from 3": (torch.neg, {0: FROM_3}),
    "from 4 to 6": (torch.neg, {0: torch.export.Dim("batch", min=4, max=6)}),
    "auto to 6": (torch.neg, {0: AUTO(max=6)}),
    "double": (torch.neg, {0: 2 * BATCH}),
    "double from 3": (torch.neg, {0: 2 * FROM_3}),
    "even": (lambda x: x + 1 if x.shape[0] % 2 == 0 else x - 1, {0: AUTO}),
    "not 5": (lambda x: x + 1 if x.shape[0] != 5 else x - 1, {0: AUTO}),
    "more than 4": (lambda x: x + 1 if x.shape[0] > 4 else x - 1, {0: AUTO}),
    "less than columns": (lambda x: x + (x.shape[0] < x.shape[1]), {0: AUTO, 1: AUTO}),
    "neighbours": (lambda x: x[:, 1:] - x[:, :-1], {0: AUTO, 1: AUTO}),
    "last": (lambda x: x[:, -1], {0: AUTO, 1: AUTO}),
    "in pairs": (lambda x: x.view(-1, 2, x.shape[1]).sum(1), {0: AUTO}),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_sizes_are_accepted_as_torch_accepts_them(name: str) -> None:
    """Checks sizes of 1: torch accepts them, although it records a lower bound of 2."""
    act, sizes = ACCEPTED[name]
    example = (torch.randn(6, 8),)
    program = torch.export.export(Act(act), example, dynamic_shapes={"operands": (sizes,)})
    module, theirs = from_exported_program(program), program.module()
    for rows in (1, 2, 3, 4, 5, 6, 12):
        for columns in (1, 2, 8) if 1 in sizes else (8,):
            x = torch.randn(rows, columns)
            if "double" in name and rows % 2:
                continue  # torch accepts rows that are no multiple of 2, which have no s0
            try:
                wanted = flat(theirs(x))
            except AssertionError:
                try:
                    found = structir.interpret(module, "main", x.numpy())
                except StructIRError:
                    continue
                wanted = flat(act(x))  # a guard of torch's own analysis; results are right
            else:
                found = structir.interpret(module, "main", x.numpy())
            agree(found, wanted)


class Packed(torch.nn.Module):
    """Causal attention among the tokens of one text; a text begins where positions do not go on,
    as in the masks of current decoders."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)

    def forward(self, ids: Any) -> Any:
        batch, length = ids.shape
        places = torch.arange(length).unsqueeze(0).expand(batch, -1)
        texts = (torch.diff(places, prepend=places[:, :1] - 1, dim=-1) != 1).cumsum(-1)
        along = torch.arange(length)
        seen = (along[:, None] >= along) & (texts[:, :, None] == texts[:, None])
        x = self.words(ids)[:, None]
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=seen[:, None])
        return self.out(y[:, 0])


def test_a_decoder_of_tokens_alone() -> None:
    model = Packed().eval()
    ids = torch.randint(0, 20, (2, 5))
    program = torch.export.export(model, (ids,), dynamic_shapes=({0: AUTO, 1: AUTO},))
    run = structir.compile(from_exported_program(program))["main"]
    for batch, length in ((1, 1), (1, 4), (2, 1), (5, 7)):
        ids = torch.randint(0, 20, (batch, length))
        agree(run(ids.numpy()), flat(model(ids)), 1e-4)


def test_ops_without_a_mapping_are_decomposed() -> None:
    x = torch.randn(1, 2, 4, 5)
    act = torch.nn.Unfold(2, padding=1)
    module = from_exported_program(exported(act, (x,)))
    agree(structir.interpret(module, "main", x.numpy()), flat(act(x)))
    with pytest.raises(StructIRError, match=r"1 x aten\.hash_tensor\.default"):
        from_exported_program(exported(torch.hash_tensor, (torch.ones(3),)))


def test_autocast_is_resolved() -> None:
    def act(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        return y.float() * 2

    x = torch.randn(4, 4)
    module = from_exported_program(exported(act, (x,)))
    agree(structir.interpret(module, "main", x.numpy()), flat(act(x)), 2e-2)


def test_reports_failures_of_torch_export_save() -> None:
    with pytest.raises(StructIRError, match="torch\\.export\\.save failed"):
        from_exported_program(object())


def test_a_file_agrees_with_its_program() -> None:
    program, held = exported(torch.tanh, (torch.ones(3),)), io.BytesIO()
    torch.export.save(program, held)
    x = np.ones(3, "float32")
    first, second = from_exported_program(program), from_pt2(held)
    np.testing.assert_array_equal(
        structir.interpret(first, "main", x), structir.interpret(second, "main", x)
    )


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
NUMBERS = st.sampled_from([True, 2, 2.5])
TENSORS = st.tuples(st.sampled_from(DTYPES), st.integers(0, 2))


@given(st.lists(TENSORS | NUMBERS, min_size=2, max_size=2))
@settings(max_examples=300)
def test_promotion_is_torchs(operands: list[Any]) -> None:
    def theirs(operand: Any) -> Any:
        if not isinstance(operand, tuple):
            return operand
        return torch.ones((2,) * operand[1], dtype=getattr(torch, operand[0]))

    def mine(operand: Any) -> Any:
        if not isinstance(operand, tuple):
            return operand
        return Var("x", TensorStructInfo((2,) * operand[1], operand[0]))

    wanted = torch.result_type(*map(theirs, operands))
    assert promote_dtypes(map(mine, operands)) == str(wanted).removeprefix("torch.")
