"""Ops whose argument is a symbolic number, and branches of models on sizes."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import torch.nn.functional as F  # noqa: E402

import structir  # noqa: E402
from structir.errors import StructIRError  # noqa: E402
from structir.frontend.torch import from_exported_program, from_pt2  # noqa: E402
from tests.frontend.torch.test_with_torch import Act, agree, exported, flat  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
COUNTS = {
    "limited": lambda x: torch.topk(x, min(x.shape[1], 5), 1),
    "half": lambda x: torch.topk(x, x.shape[1] // 2, -1, largest=False),
    "all": lambda x: torch.topk(x, x.shape[0], 0),
    "none": lambda x: torch.topk(x, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_topk_of_a_symbolic_count(name: str) -> None:
    act = COUNTS[name]
    module = from_exported_program(exported(act, (torch.randn(3, 8),), dynamic=True))
    run = structir.compile(module)["main"]
    for sizes in ((3, 8), (2, 2), (1, 5), (4, 1)):
        x = torch.randn(sizes)
        agree(structir.interpret(module, "main", x.numpy()), flat(act(x)))
        agree(run(x.numpy()), flat(act(x)))


POOLS = {
    "area": lambda x: F.interpolate(x, scale_factor=0.6, mode="area"),
    "mean": lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2 + 1, 3)),
    "mean of an image": lambda x: F.adaptive_avg_pool2d(x[0], (x.shape[3] // 2 + 1, x.shape[2])),
}


@pytest.mark.parametrize("name", POOLS)
def test_adaptive_pools_of_a_symbolic_size(name: str) -> None:
    act = POOLS[name]
    module = from_exported_program(exported(act, (torch.randn(2, 3, 10, 15),), dynamic=True))
    run = structir.compile(module)["main"]
    for sizes in ((2, 3, 10, 15), (3, 2, 5, 7), (2, 2, 17, 6)):
        x = torch.randn(sizes)
        agree(structir.interpret(module, "main", x.numpy()), flat(act(x)))
        agree(run(x.numpy()), flat(act(x)))


def factored(x: Any, y: Any) -> Any:
    factors, pivots = torch.linalg.lu_factor(x)
    return *torch.lu_unpack(factors, pivots), torch.linalg.lu_solve(factors, pivots, y)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_lu_of_many_rows(dynamic: bool) -> None:
    x, y = torch.randn(2, 150, 150, dtype=torch.float64), torch.randn(2, 150, 3).double()
    module = from_exported_program(exported(factored, (x, y), dynamic))
    agree(structir.compile(module)["main"](x.numpy(), y.numpy()), flat(factored(x, y)), 1e-6)


def upsampled(x: Any) -> Any:
    """Repeats every second column; pads if that is shorter."""
    y = x[:, ::2][:, : x.shape[1] // 2].repeat_interleave(2, 1)
    return F.pad(y, (0, x.shape[1] - y.shape[1])) if y.shape[1] < x.shape[1] else y


# the branch, the sizes of the export, sizes of the same branch, and sizes of the other one
BRANCHES: dict[str, tuple[Any, Any, Any, Any]] = {
    "order": (upsampled, (2, 8), (3, 4), (2, 9)),
    "remainder": (
        lambda x: x * 2 if (x.shape[1] // 2) % 2 else x + 1,
        (2, 6),
        (3, 10),
        (2, 8),
    ),
    "specialized": (
        lambda x: F.adaptive_max_pool2d(x[None], (x.shape[0] // 2 + 1, 2)),
        (4, 6),
        (5, 8),
        (6, 6),
    ),
    "bound": (lambda x: x * 2 if x.shape[1] // 2 > 5 else x + 1, (2, 14), (3, 12), (2, 8)),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_of_the_model_on_a_quotient_is_checked(name: str) -> None:
    act, first, same, other = BRANCHES[name]
    module = from_exported_program(exported(act, (torch.randn(first),), dynamic=True))
    run = structir.compile(module)["main"]
    for sizes in (first, same):
        x = torch.randn(sizes)
        agree(run(x.numpy()), flat(act(x)))
    for call in (run, lambda x: structir.interpret(module, "main", x)):
        with pytest.raises(StructIRError, match=r"R\.require: expected (.* // 2|s\d+ >= 12)"):
            call(torch.randn(other).numpy())


def stored(program: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_is_checked_without_a_record_of_its_origin(name: str, strict: bool) -> None:
    """Neither a file nor a program that torch loaded records the lines that cause guards."""
    act, first, same, other = BRANCHES[name]
    program = exported(act, (torch.randn(first),), dynamic=True, strict=strict)
    modules = [
        from_exported_program(program),
        from_exported_program(torch.export.load(stored(program))),
        from_pt2(stored(program)),
    ]
    x = torch.randn(same)
    for module in modules:
        agree(structir.interpret(module, "main", x.numpy()), flat(act(x)))
        with pytest.raises(StructIRError, match=r"R\.require: expected (.* // 2|s\d+ >= 12)"):
            structir.interpret(module, "main", torch.randn(other).numpy())


def windows(x: Any) -> Any:
    """Has an op that torch decomposes, after a branch."""
    return F.unfold(x[None, None], 2) if (x.shape[1] // 2) % 2 else x + 1


def test_guards_of_a_loaded_program_are_checked_after_its_decomposition() -> None:
    program = exported(windows, (torch.randn(3, 10),), dynamic=True)
    module = from_exported_program(torch.export.load(stored(program)))
    x = torch.randn(4, 14)
    agree(structir.interpret(module, "main", x.numpy()), flat(windows(x)))
    with pytest.raises(StructIRError, match=r"R\.require: expected .* // 2"):
        structir.interpret(module, "main", torch.randn(3, 12).numpy())


def _at_least_five(x: Any) -> Any:
    torch._check(x.shape[0] >= 5)
    return x * 2


def _multiple_of_four(x: Any) -> Any:
    torch._check(x.shape[0] % 4 == 0)
    return x * 2


def _prefix(x: Any, count: Any) -> Any:
    size = count.item()
    torch._check(size >= 2)
    torch._check(size < x.shape[0])
    return x[:size] * 2


def _zeros(x: Any, count: Any) -> Any:
    size = count.item()
    torch._check(size >= 0)
    torch._check(size <= 8)
    return torch.zeros(size) + x.sum()


STATED = {  # a model, and arguments of sizes that torch accepts or rejects
    "range": (_at_least_five, [(8,), (5,), (4,), (1,)]),
    "guard": (_multiple_of_four, [(8,), (12,), (9,)]),
    "prefix": (_prefix, [(8, 3), (8, 2), (8, 1), (8, 8), (8, 9)]),
    "zeros": (_zeros, [(8, 3), (8, 2), (8, 8), (8, 9), (8, -1)]),
}


@pytest.mark.parametrize("name", STATED)
def test_stated_conditions_are_required_as_in_torch(name: str) -> None:
    act, cases = STATED[name]
    arguments = [
        (torch.arange(1.0, size + 1), *[torch.tensor(count) for count in counts])
        for size, *counts in cases
    ]
    shapes = ({0: torch.export.Dim.AUTO}, *[None] * (len(cases[0]) - 1))
    program = torch.export.export(Act(act), arguments[0], dynamic_shapes=(shapes,))
    module = from_exported_program(program)
    run = structir.compile(module)["main"]
    for given in arguments:
        arrays = [value.numpy() for value in given]
        try:
            expected = flat(program.module()(*given))
        except Exception:  # torch raises errors of several types
            for call in (run, lambda *values: structir.interpret(module, "main", *values)):
                with pytest.raises(StructIRError):
                    call(*arrays)
        else:
            agree(run(*arrays), expected)
            agree(structir.interpret(module, "main", *arrays), expected)
