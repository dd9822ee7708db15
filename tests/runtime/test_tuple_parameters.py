"""Functions with tuples of tensors as parameters run as one region, natively."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.errors import StructIRError
from structir.runtime.tuple_parameters import TupleFunction

PROGRAM = structir.parse("""
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", "k"), "float32"),
        p: R.Tuple(w=R.Tensor(("k", "m"), "float32"),
                   rest=R.Tuple(R.Tensor(("m",), "float32"), R.Tuple())),
        scale: R.Tensor((), "float32"),
    ):
        y = x @ p.w + p.rest[0]
        return R.tuple(y=R.nn.relu(y) * scale, p=p)

    @R.function
    def caller(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        b = R.zeros((4,), "float32")
        return cls.main(x, (w, (b, R.tuple())), R.const(2.0, "float32"))[0]

    @R.function
    def update(
        cache: R.Tensor((4, 2), "float32"),
        p: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((1, 2), "float32")),
        out: R.Tensor((), "float32"),
    ):
        R.func_attr({"donated": {"cache": 0}})
        return cache * p[0] + p[1] + out
""")


def array(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def arguments(n: int = 3, k: int = 4, m: int = 5) -> list[Any]:
    return [array(n, k), {"rest": [array(m), ()], "w": array(k, m)}, np.float32(2)]


def outcome(run: Any, *args: Any, **names: Any) -> Any:
    try:
        return run(*args, **names)
    except StructIRError as error:
        return str(error)


def assert_equal(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, tuple):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_equal(a, b)
    elif isinstance(left, str):
        assert left == right
    else:
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_such_functions_are_one_region() -> None:
    exe = structir.compile(PROGRAM)
    assert all(isinstance(exe.direct[name], TupleFunction) for name in ("main", "update"))
    assert not exe.fallbacks
    assert len(exe.plans("caller")) == 1


FIELDS = [
    [array(4, 5), array(5, 4), array(4, 4), [[1.0]], 2.0, None],
    [array(5), array(4), np.zeros(5), [1.0, 2.0, 3.0, 4.0, 5.0], array(5)[::-1], "a"],
    [(), [], {}, (array(1),), 3],
]


@settings(max_examples=60, deadline=None)
@given(st.tuples(*[st.sampled_from(range(len(f))) for f in FIELDS]), st.integers(0, 7))
def test_arguments_of_every_form_agree_with_the_interpreter(
    picked: tuple[int, ...], form: int
) -> None:
    w, b, empty = (fields[k] for fields, k in zip(FIELDS, picked, strict=True))
    rest = [b, empty] if form % 2 else (b, empty)
    trees: list[Any] = [{"w": w, "rest": rest}, (w, rest), [w, rest], {"rest": rest}]
    tree = trees[form // 2]
    x, scale = array(3, 4), np.float32(2)
    left = outcome(structir.compile(PROGRAM)["main"], x, tree, scale)
    assert_equal(left, outcome(structir.interpret, PROGRAM, "main", x, tree, scale))


def test_keywords_outputs_and_new_sizes() -> None:
    main = structir.compile(PROGRAM)["main"]
    for sizes in ((3, 4, 5), (1, 1, 1), (7, 2, 33), (3, 4, 5)):
        x, p, scale = arguments(*sizes)
        expected = structir.interpret(PROGRAM, "main", x, p, scale)
        assert_equal(main(scale=scale, p=p, x=x), expected)
        outputs = [np.empty_like(e) for e in (expected[0], p["w"], p["rest"][0])]
        main(x, p, scale, out=outputs)
        np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(outputs[1], p["w"])


def test_results_share_no_memory_with_fields() -> None:
    x, p, scale = arguments()
    _, (w, (b, _)) = structir.compile(PROGRAM)["main"](x, p, scale)
    assert not np.may_share_memory(w, p["w"])
    assert not np.may_share_memory(b, p["rest"][0])


def test_a_tensor_beside_a_tuple_is_donated() -> None:
    cache, p = array(4, 2), (array(2), array(1, 2))
    expected = cache * p[0] + p[1] + 1
    result = structir.compile(PROGRAM)["update"](cache, p, out=np.float32(1))
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert np.may_share_memory(result, cache)


def test_a_saved_executable_has_them(tmp_path: Path) -> None:
    structir.compile(PROGRAM).save(tmp_path / "program")
    loaded = structir.load(tmp_path / "program")
    assert isinstance(loaded.direct["main"], TupleFunction)
    assert_equal(loaded["main"](*arguments()), structir.interpret(PROGRAM, "main", *arguments()))


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_a_wrong_number_of_arguments_is_reported_as_by_the_interpreter(count: int) -> None:
    args = [*arguments(), 1][:count]
    left = outcome(structir.compile(PROGRAM)["main"], *args)
    assert isinstance(left, str)
    assert left == outcome(structir.interpret, PROGRAM, "main", *args)
