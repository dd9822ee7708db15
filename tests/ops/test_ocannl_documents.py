"""Examples of the documents that describe OCANNL's shapes and einsum, named by their position.

`syntax` is the document on syntax extensions, `shapes` the one on shape inference, `slides` the
slides on shapes and einsum, `einops` the comparison with einops, and `trivia` the test programs of
einsum that the documents refer to. A specification is passed to `R.einsum` unchanged.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.projections import accesses
from tests.ops.einsum_cases import annotation

pytestmark = pytest.mark.filterwarnings("ignore:.*cannot prove the annotation")
Array = Any
Shape = tuple[int, ...]
OPEN = 'R.Tensor(dtype="float64")'


def module_of(spec: str, operands: list[str], result: str = "", op: str = "einsum") -> Any:
    params = ", ".join(f"x{k}: {info}" for k, info in enumerate(operands))
    names = "".join(f"x{k}, " for k in range(len(operands)))
    returned = f" -> {result}" if result else ""
    head = f"@R.function\ndef main({params}){returned}:\n"
    return structir.parse(f'{head}    y = R.{op}(({names}), "{spec}")\n    return y\n')


def values(*shapes: Shape) -> list[Array]:
    return [np.arange(np.prod(s, dtype=int), dtype="float64").reshape(s) + k + 1
            for k, s in enumerate(shapes)]  # fmt: skip


def kernels(x: Array, width: int, stride: int = 1) -> Array:
    """Returns the windows of a vector, without padding."""
    return np.lib.stride_tricks.sliding_window_view(x, width)[::stride]


# position, specification, shapes of the operands, result; batch axes come first, input axes last
EXAMPLES: list[tuple[str, str, list[Shape], Any]] = [
    ("syntax-scalar-loss", "...|... => 0", [(2, 3)], lambda x: x.sum()[None]),
    ("syntax-examples-1", "...|...->... => 0", [(2, 3, 4)], lambda x: x.sum()[None]),
    ("syntax-examples-2-batch", "...|... => 0", [(2, 3)], lambda x: x.sum()[None]),
    ("syntax-examples-2-input", "...->... => 0", [(2, 3)], lambda x: x.sum()[None]),
    ("syntax-examples-2-output", "... => 0", [(4,)], lambda x: x.sum()[None]),
    ("syntax-examples-3", "...|...->... => ...|...->...", [(2, 3, 4)], lambda x: x),
    ("syntax-examples-4-input", "...->... => ...->...", [(2, 3)], lambda x: x),
    ("syntax-examples-4-batch", "...|... => ...|...", [(2, 3)], lambda x: x),
    ("syntax-examples-4-output", "... => ...", [(2, 3)], lambda x: x),
    (
        "syntax-examples-5",
        "...|...->... ; ...|...->... => ...|...->...",
        [(2, 3), (2, 3)],
        lambda x, y: x * y,
    ),
    ("syntax-examples-6", "...|...->... => ...->...", [(2, 3, 4)], lambda x: x.sum(0)),
    ("syntax-examples-7", "2...|...->... => ...|...->...", [(4, 3, 2)], lambda x: x[2]),
    (
        "syntax-examples-8",
        "...|... => ...|...2",
        [(2, 3)],
        lambda x: np.stack([0 * x, 0 * x, x], -1),
    ),
    ("syntax-examples-9", "ijk => kji", [(2, 3, 4)], lambda x: x.transpose(2, 1, 0)),
    ("syntax-examples-10", "ijk => ki", [(2, 3, 4)], lambda x: x.sum(1).T),
    (
        "syntax-examples-11",
        "..v..|...ijk => ..v..kji",
        [(5, 2, 3, 4)],
        lambda x: x.transpose(0, 3, 2, 1),
    ),
    ("syntax-examples-12", "2..v..|... => ..v..", [(3, 4, 2)], lambda x: x[2].sum(1)),
    ("syntax-axis-affine", "2*i<+3*k; k => i", [(8,), (2,)],
     lambda x, w: np.stack([x[0:5:2], x[3:8:2]], 1) @ w),
    ("syntax-axis-names", "2 * a <+ 3 * b; b => a,", [(8,), (2,)],
     lambda x, w: np.stack([x[0:5:2], x[3:8:2]], 1) @ w),
    ("syntax-axis-letters", "i2*a<+3*bc;b=>iac", [(2, 8, 4), (2,)],
     lambda x, w: np.einsum("iabc,b->iac", np.stack([x[:, 0:5:2], x[:, 3:8:2]], 2), w)),
    ("syntax-affine-stride-2-kernel-2", "2*o<+k; k => o", [(4,), (2,)],
     lambda x, w: kernels(x, 2, 2) @ w),
    ("syntax-affine-stride-2-kernel-3", "2*o<+k; k => o", [(9,), (3,)],
     lambda x, w: kernels(x, 3, 2) @ w),
    ("syntax-affine-convolution", "...|oh<+wh, ow<+ww, ic; wh, ww, ic -> oc => ...|oh, ow, oc",
     [(1, 4, 4, 2), (3, 3, 3, 2)], lambda x, w: np.einsum("nhwcij,oijc->nhwo",
     np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2)), w)),
    ("syntax-concat-1", "a; b => a^b", [(2,), (3,)], lambda x, y: np.concatenate([x, y])),
    ("syntax-concat-integer-1", "3^a => a", [(5,)], lambda x: x[3:]),
    ("syntax-concat-integer-2", "a => a^3", [(2,)], lambda x: np.pad(x, (0, 3))),
    ("syntax-concat-integer-3", "3^a^5 => a", [(10,)], lambda x: x[3:5]),
    ("syntax-concat-n-ary", "x, ...; y, ...; z, ... => x^y^z, ...", [(2, 4), (1, 4), (3, 4)],
     lambda *xs: np.concatenate(xs)),
    ("syntax-block-1", "...|...->... => ...|...->0, ...", [(2, 3)], lambda x: x[None]),
    ("syntax-block-2", "...|...->a,... ; ...|...->b,... => ...|...->a^b,...",
     [(2, 1, 3), (2, 1, 3)], lambda x, y: np.concatenate([x, y], 1)),
    ("syntax-block-input", "a,...->... ; b,...->... => a^b,...->...", [(3, 1, 2), (3, 1, 2)],
     lambda x, y: np.concatenate([x, y], 1)),
    ("syntax-block-batch", "a,...|... ; b,...|... => a^b,...|...", [(1, 2, 3), (1, 2, 3)],
     lambda x, y: np.concatenate([x, y])),
    ("syntax-affine-convolution-of-rows",
     "...|oh<+wh, ow<+ww, ..ic..; wh, ww, ic => ...|oh, ow, ..oc..", [(1, 4, 4, 2), (3, 3, 2)],
     lambda x, w: np.repeat(np.einsum("nhwcij,ijk->nhw", np.lib.stride_tricks
     .sliding_window_view(x, (3, 3), (1, 2)), w)[..., None], 5, 3)),
    ("shapes-concat-3", "a^b => a^b", [(5,)], lambda x: x),
    ("shapes-concat-6", "a; b => a^c", [(2,), (3,)], lambda x, y: np.pad(x * y.sum(), (0, 3))),
    ("einops-layer-norm", " ... | ... => ... |  0 ", [(2, 3, 4)],
     lambda x: x.sum((1, 2))[:, None]),
    ("trivia-25-and-26-of-one-tensor", "i -> i 0:3", [(4,)],
     lambda x: np.stack([x, 0 * x, 0 * x], 1)),
    ("trivia-28", "k=>k2", [(6,)], lambda x: np.stack([0 * x, 0 * x, x], 1)),
    ("slides-1-matrix-multiply", "m n; n p => m p", [(2, 3), (3, 4)], lambda x, y: x @ y),
    ("slides-ellipsis-1", "... => 0", [(2, 3)], lambda x: x.sum()[None]),
    ("slides-ellipsis-2", "...|...->... => 0", [(2, 3)], lambda x: x.sum()[None]),
    ("slides-ellipsis-4", "...|...k => ...|...", [(2, 3, 4)], lambda x: x.sum(2)),
    ("slides-ellipsis-3", "...|...->...; ...|...->... => ...|...->...", [(2, 3, 4), (2, 3, 4)],
     lambda x, y: x * y),
    ("slides-multichar-attention",
     "... seq | heads, ..dims..; ... time | heads, ..dims.. => ... seq | time -> heads",
     [(2, 3, 4, 5, 6), (2, 7, 4, 5, 6)], lambda q, k: np.einsum("bshde,bthde->bsht", q, k)),
    ("slides-patterns-attention",
     "..batch.., seq | heads, ..dims..; ..batch.., time | heads, ..dims.. "
     "=> ..batch.., seq | time -> heads",
     [(2, 3, 4, 5), (2, 6, 4, 5)], lambda q, k: np.einsum("bshd,bthd->bsht", q, k)),
    ("slides-operators-3",
     "... | ..k..->..i..; ... | ..j..->..k.. => ... | ..j..->..i..", [(2, 3, 4), (2, 4, 5)],
     lambda x, y: x @ y),
    ("slides-convolution", "... | 2*oh+kh, 2*ow+kw, ic; kh, kw, ic -> oc => ... | oh, ow, oc",
     [(1, 5, 5, 2), (3, 3, 3, 2)], lambda x, w: np.einsum("nhwcij,oijc->nhwo",
     np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2], w)),
    ("slides-constants-average-pooling", "... | 2*oh+kh, 2*ow+kw, c; kh, kw => ... | oh, ow, c",
     [(1, 4, 6, 3), (2, 2)],
     lambda x, w: np.einsum("nhiwjc,ij->nhwc", x.reshape(1, 2, 2, 3, 2, 3), w)),
    ("slides-reduce-last-1", "... | ...abc => ... | ...000", [(2, 5, 2, 3, 4)],
     lambda x: x.sum((2, 3, 4), keepdims=True)),
    ("slides-reduce-last-2", "... | ...abc => ... | ...", [(2, 5, 2, 3, 4)],
     lambda x: x.sum((2, 3, 4))),
    ("einops-reduce-sum", "...|...hw => ...|0", [(2, 3, 4, 5)], lambda x: x.sum((2, 3))[..., None]),
    ("einops-summary-pooling", "2*oh<+wh, 2*ow<+ww; wh, ww => oh, ow", [(4, 6), (2, 2)],
     lambda x, w: np.einsum("hiwj,ij->hw", x.reshape(2, 2, 3, 2), w)),
    ("einops-summary-concat", "x; y => x^y", [(2,), (3,)], lambda x, y: np.concatenate([x, y])),
    ("slides-attention", "... seq | heads, dims; ... time | heads, dims => ... seq | time -> heads",
     [(2, 3, 4, 5), (2, 6, 4, 5)], lambda q, k: np.einsum("bshd,bthd->bsht", q, k)),
    ("slides-operators-1", "ik; kj => ij", [(2, 3), (3, 4)], lambda x, y: x @ y),
    ("slides-operators-2", "... | ik; ... | kj => ... | ij", [(2, 2, 3), (2, 3, 4)],
     lambda x, y: x @ y),
    ("slides-projection", "ij; jk => ik", [(2, 3), (3, 4)], lambda x, y: x @ y),
    ("slides-pitfalls-letters", "abc => cab", [(2, 3, 4)], lambda x: x.transpose(2, 0, 1)),
    ("slides-pitfalls-one-name", "abc, => abc,", [(3,)], lambda x: x),
    ("slides-pitfalls-names", "a, b, c => c, a, b", [(2, 3, 4)], lambda x: x.transpose(2, 0, 1)),
    ("slides-capture-rows", "i j => j i", [(2, 3)], lambda x: x.T),
    ("slides-exercise-1", "batch, seq, dim; batch, time, dim => batch, seq, time",
     [(2, 3, 4), (2, 5, 4)], lambda q, k: np.einsum("bsd,btd->bst", q, k)),
    ("slides-exercise-2", "batch, seq, time; batch, time, dim => batch, seq, dim",
     [(2, 3, 5), (2, 5, 4)], lambda w, v: np.einsum("bst,btd->bsd", w, v)),
    ("einops-permute", "bchw => bhwc", [(2, 3, 4, 5)], lambda x: x.transpose(0, 2, 3, 1)),
    ("einops-einsum", "...|i, k; ...|k, j => ...|i, j", [(2, 2, 3), (2, 3, 4)],
     lambda x, y: x @ y),
    ("einops-heads", "... s | h d; ... t | h d => ... s | t -> h", [(2, 3, 4, 5), (2, 6, 4, 5)],
     lambda q, k: np.einsum("bshd,bthd->bsht", q, k)),
    ("einops-average-pooling", "...|2*oh<+wh, 2*ow<+ww, ..c..; wh, ww => ...|oh, ow, ..c..",
     [(1, 4, 6, 3), (2, 2)], lambda x, w: x.reshape(1, 2, 2, 3, 2, 3).sum((2, 4)) * 0
     + np.einsum("nhiwjc,ij->nhwc", x.reshape(1, 2, 2, 3, 2, 3), w)),
    ("trivia-1", "b|i->o => o|b->i", [(2, 4, 3)], lambda x: x.transpose(1, 2, 0)),
    ("trivia-2", "ab|cd->ef => cf|ae->db", [(2, 3, 6, 7, 4, 5)],
     lambda x: np.einsum("abefcd->cfdbae", x)),
    ("trivia-3", "...|i->1; ...|...->i => ...|i", [(3, 2, 4), (3, 4, 1)],
     lambda a, b: a[:, 1] * b.sum(2)),
    ("trivia-4", "b|i->o => b|i", [(2, 4, 3)], lambda x: x.sum(1)),
    ("trivia-5", "ab|cd->ef => c|a->d", [(2, 3, 6, 7, 4, 5)],
     lambda x: np.einsum("abefcd->cda", x)),
    ("trivia-6", "i; j => i->j", [(2,), (3,)], lambda a, b: np.outer(b, a)),
    ("trivia-7", "i|j->k; l|m->n => il|jm->kn", [(2, 4, 3), (5, 7, 6)],
     lambda a, b: np.einsum("ikj,lnm->ilknjm", a, b)),
    ("trivia-8", "b|i->o; b|i->o => b|i->o", [(2, 4, 3), (2, 4, 3)], lambda a, b: a * b),
    ("trivia-9", "b|h->o; b|i->h => b|i->o", [(2, 5, 4), (2, 4, 3)], lambda b, a: b @ a),
    ("trivia-10", "a|i->h; b|h->o => ab|i->o", [(2, 4, 3), (2, 5, 4)],
     lambda a, b: np.einsum("ahi,boh->aboi", a, b)),
    ("trivia-11", "b|i->h; b|h->o => i->o", [(2, 4, 3), (2, 5, 4)],
     lambda a, b: np.einsum("bhi,boh->oi", a, b)),
    ("trivia-12", "a|i->h; b|h->o => i->o", [(2, 4, 3), (2, 5, 4)],
     lambda a, b: np.einsum("ahi,boh->oi", a, b)),
    ("trivia-13", "...|i->o => ...|o->i", [(2, 4, 3)], lambda x: x.transpose(0, 2, 1)),
    ("trivia-14", "b|...->o => o|...->b", [(2, 4, 3)], lambda x: x.transpose(1, 0, 2)),
    ("trivia-15", "...b|...i->...o => ...i|...o->...b", [(2, 3, 6, 7, 4, 5)],
     lambda x: np.einsum("abcdef->afcbed", x)),
    ("trivia-16", "...b|...i->...o => i|o->b", [(2, 3, 6, 7, 4, 5)],
     lambda x: np.einsum("abcdef->fbd", x)),
    ("trivia-17", "...|...->...o => o", [(2, 4, 3)], lambda x: x.sum((0, 2))),
    ("trivia-17-output", "...|...->...o => o", [(3, 4)], lambda x: x.sum(0)),
    ("trivia-18", "i->...o => ...io", [(3, 4, 2)], lambda x: x.transpose(0, 2, 1)),
    ("trivia-19", "...|i->...; ...|...->i => ...|i", [(3, 2, 4), (3, 4, 1)],
     lambda a, b: a.sum(1) * b.sum(2)),
    ("trivia-20", "i->...;j->... => ...ij", [(3, 2), (3, 4)],
     lambda d, e: np.einsum("oi,oj->oij", d, e)),
    ("trivia-21", "...|1->... => ...|...", [(2, 4, 3)], lambda x: x[..., 1]),
    ("trivia-23", "...|...->... => 0", [(3, 2)], lambda x: x.sum()[None]),
    ("trivia-24", "i->j => i0j", [(3, 2)], lambda x: x.T[:, None]),
    ("trivia-25", "i=>i0", [(4,)], lambda x: x[:, None]),
    ("trivia-26", "i=>i2", [(4,)], lambda x: np.stack([0 * x, 0 * x, x], 1)),
    ("trivia-27", "j=>j1", [(5,)], lambda x: np.stack([0 * x, x], 1)),
    ("trivia-30", "...|i->1; ...|j...->i => ...|ij", [(3, 2, 4), (3, 4, 2, 3)],
     lambda a, b: np.einsum("bi,bij->bij", a[:, 1], b.sum(3))),
    ("trivia-31", "i->1; ij...->0 => ...->ji", [(2, 2), (2, 2, 3, 4)],
     lambda a, b: np.einsum("i,ijk->jik", a[1], b[0])),
]  # fmt: skip


def check(module: Any, arrays: list[Array], expected: Array) -> None:
    np.testing.assert_allclose(structir.interpret(module, "main", *arrays), expected)
    np.testing.assert_allclose(structir.compile(module)["main"](*arrays), expected)


@pytest.mark.parametrize(
    ("spec", "shapes", "expected"),
    [pytest.param(*rest, id=name) for name, *rest in EXAMPLES],
)
def test_an_example_has_its_value(spec: str, shapes: list[Shape], expected: Any) -> None:
    arrays = values(*shapes)
    result = expected(*arrays)
    infos = [annotation(shape) for shape in shapes]
    module = structir.infer(module_of(spec, infos, annotation(result.shape)))
    check(module, arrays, result)


@pytest.mark.parametrize(
    ("spec", "shape", "result", "expected"),
    [
        pytest.param("a^b => a", (5,), (2,), lambda x: x[:2], id="syntax-concat-2"),
        pytest.param("a^b => b", (5,), (2,), lambda x: x[3:], id="syntax-concat-3"),
        pytest.param("a => a^b", (2,), (5,), lambda x: np.pad(x, (0, 3)), id="syntax-concat-4"),
        pytest.param("b => a^b", (2,), (5,), lambda x: np.pad(x, (3, 0)), id="syntax-concat-5"),
        pytest.param("hw => hw_", (2, 3), (2, 3, 4),
                     lambda x: np.repeat(x[..., None], 4, 2), id="einops-repeat"),
        pytest.param("b^c => a", (5,), (4,), lambda x: np.full(4, x.sum()), id="shapes-concat-4"),
        pytest.param("...|...->... => ...|...->0", (2, 4), (2, 4, 1),
                     lambda x: x[..., None], id="trivia-22"),
        pytest.param("... | ..d.. => ... | 0", (2, 3, 4), (2, 1),
                     lambda x: x.sum((1, 2))[:, None], id="slides-patterns-4"),
    ],
)  # fmt: skip
def test_the_result_determines_what_operands_leave_open(
    spec: str, shape: Shape, result: Shape, expected: Any
) -> None:
    (x,) = values(shape)
    module = structir.infer(module_of(spec, [annotation(shape)], annotation(result)))
    check(module, [x], expected(x))


@pytest.mark.parametrize(
    ("spec", "where", "expected"),
    [
        pytest.param("a^b^c => b", "a == 1, c == 2", lambda x: x[1:4], id="syntax-concat-6"),
        pytest.param("b => a^b^c", "a == 1, c == 2", lambda x: np.pad(x, (1, 2)),
                     id="syntax-concat-7"),
        pytest.param("*b1 b *i1 i *o1 o -> *i1 i *o1 o *b1 b", "rank(*b1) == 1, rank(*i1) == 1",
                     lambda x: x.transpose(2, 3, 4, 5, 0, 1), id="rank-of-rows-1"),
        pytest.param("*b b *i i *o o -> i o b", "rank(*b) == 1, rank(*i) == 1",
                     lambda x: x.sum((0, 2, 4)).transpose(1, 2, 0), id="rank-of-rows-2"),
    ],
)  # fmt: skip
def test_conditions_state_sizes_and_ranks(spec: str, where: str, expected: Any) -> None:
    shape = (2, 3, 4, 5, 6, 7) if "*" in spec else (6,)
    (x,) = values(shape)
    check(module_of(f"{spec} where {where}", [annotation(shape)]), [x], expected(x))


@pytest.mark.parametrize(
    ("spec", "shapes", "expected"),
    [
        pytest.param("bhwc => b00c", [(2, 3, 4, 5)], lambda x: x.max((1, 2), keepdims=True),
                     id="slides-operators-4"),
        pytest.param("...|hwc => ...|00c", [(2, 3, 4, 5)],
                     lambda x: x.max((1, 2), keepdims=True), id="slides-operators-5"),
        pytest.param("...|2*oh<+wh, 2*ow<+ww, ..c..; wh, ww => ...|oh, ow, ..c..",
                     [(1, 4, 6, 3), (2, 2)],
                     lambda x, w: (x.reshape(1, 2, 2, 3, 2, 3) + w[:, None, :, None]).max((2, 4)),
                     id="syntax-affine-max-pooling"),
        pytest.param("...|...->... => 0", [(2, 3)], lambda x: x.max()[None], id="slides-sgd"),
        pytest.param("il;jl=>ijl", [(4, 3), (5, 3)], lambda x, y: x[:, None] + y,
                     id="trivia-29-outer-sum-1"),
        pytest.param("ijl;kl=>ijkl", [(4, 5, 3), (6, 3)], lambda x, y: x[:, :, None] + y,
                     id="trivia-29-outer-sum-2"),
        pytest.param("...|...hw => ...|0", [(2, 3, 4, 5)],
                     lambda x: x.max((2, 3))[..., None], id="einops-reduce-max"),
    ],
)  # fmt: skip
def test_the_maximum_of_sums_is_another_op(spec: str, shapes: list[Shape], expected: Any) -> None:
    arrays = values(*shapes)
    result = annotation(expected(*arrays).shape)
    module = module_of(spec, [annotation(s) for s in shapes], result, op="tropical")
    check(structir.infer(module), arrays, expected(*arrays))


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        pytest.param("2*o<+k; k => o", [(5,), (2,)], id="syntax-affine-5-elements"),
        pytest.param("2*o<+k; k => o", [(10,), (3,)], id="syntax-affine-10-elements"),
        pytest.param("ijk => kji", [(2, 3, 4, 5)], id="syntax-examples-9-more-axes"),
        pytest.param("2|... => ...", [(2, 3)], id="syntax-examples-7-out-of-range"),
        pytest.param("ij; jk => ik", [(2, 3), (4, 5)], id="shapes-equations"),
        pytest.param("ij; jk => ik", [(2, 1), (4, 5)], id="shapes-no-broadcasting"),
    ],
)
def test_an_invalid_example_is_rejected(spec: str, shapes: list[Shape]) -> None:
    with pytest.raises(StructIRError, match="help: "):
        module_of(spec, [annotation(shape) for shape in shapes])


@pytest.mark.parametrize(
    ("spec", "kernel", "result", "operand"),
    [
        pytest.param("3*o => o", None, (4,), (12,), id="shapes-affine-stride"),
        pytest.param("2*o=+k; k => o", (3,), (4,), (8,), id="shapes-affine-padding"),
        pytest.param("o=+k; k => o", (5,), (7,), (7,), id="shapes-affine-same-size"),
        pytest.param("2*o<+3*k; k => o", (2,), (4,), (10,), id="shapes-affine-dilation"),
        pytest.param("o<+k; k => o", (3,), (4,), (6,), id="shapes-affine-valid"),
    ],
)
def test_the_size_of_an_affine_axis_is_inferred(
    spec: str, kernel: Shape | None, result: Shape, operand: Shape
) -> None:
    infos = [OPEN, *([annotation(kernel)] if kernel else [])]
    main = structir.infer(module_of(spec, infos, annotation(result)))["main"]
    assert main.params[0].struct_info.dims == operand


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_is_split_with_the_smaller_part_to_the_left(width: int, stride: int) -> None:
    """Each element of the result reads `width` elements from `width // 2` before its own."""
    x, w = values((6,), (width,))
    padded = np.pad(x, (width // 2, width))
    expected = kernels(padded, width, stride)[: 6 // stride] @ w
    module = module_of(f"{stride}*o=+k; k => o", [annotation((6,)), annotation((width,))])
    check(module, [x, w], expected)


PROJECTIONS = {
    "ij; jk => ik": "out[i, k] = sum(j < 3) of x0[i, j], x1[j, k] for i < 2, k < 4",
    "i->j => i0j": "out[i, 0, j] = x0[j, i] for i < 3, j < 2",
    "1...|... => ...|...": "out[batch_0] = x0[1, batch_0] for batch_0 < 3",
    "...|...->... => 0": "out[0] = sum(batch_0 < 2, batch_1 < 3) of x0[batch_0, batch_1]",
}


@pytest.mark.parametrize("spec", PROJECTIONS)
def test_projections_have_indices_0_and_slices(spec: str) -> None:
    infos = [annotation((2, 3)), annotation((3, 4))][: spec.count(";") + 1]
    (loops,) = accesses(module_of(spec, infos)["main"])
    assert str(loops) == PROJECTIONS[spec]


def test_an_axis_that_broadcasts_is_read_at_index_0() -> None:
    text = '@R.function\ndef main(x: R.Tensor((2, 3), "float64"), y: R.Tensor((1, 3), "float64")):'
    (loops,) = accesses(structir.parse(f"{text}\n    z = R.add(x, y)\n    return z\n")["main"])
    assert re.search(r"y\[0, s_1\]", str(loops))


@pytest.mark.parametrize(
    ("spec", "shapes", "closed"),
    [
        pytest.param("hw => hw_", [(2, 3)], (2, 3, 1), id="shapes-stage-7-dimension-1"),
        pytest.param("i -> i 2:", [(4,)], (4, 3), id="shapes-stage-7-lower-bound"),
        pytest.param("a^b => a", [(5,)], (1,), id="part-of-a-concatenation"),
    ],
)
def test_defaulting_gives_open_sizes_their_lower_bound(
    spec: str, shapes: list[Shape], closed: Shape
) -> None:
    module = structir.infer(module_of(spec, [annotation(s) for s in shapes]), close=True)
    assert structir.compile(module)["main"](*values(*shapes)).shape == closed


# ---- Tensor expressions

OPERATIONS = {  # of the tables of primitive operations: StructIR's expression, and its values
    "relu": ("R.nn.relu(a)", lambda a, b: np.maximum(a, 0)),
    "sat01": ("R.clip(a, 0, 1)", lambda a, b: np.clip(a, 0, 1)),
    "exp2": ("R.power(2.0, a)", lambda a, b: 2**a),
    "log2": ("R.log(R.abs(a)) / R.log(R.const(2.0, 'float64'))", lambda a, b: np.log2(abs(a))),
    "recip": ("1.0 / a", lambda a, b: 1 / a),
    "recip_sqrt": ("R.rsqrt(R.abs(a))", lambda a, b: 1 / np.sqrt(abs(a))),
    "neg": ("-a", lambda a, b: -a),
    "tanh": ("R.tanh(a)", lambda a, b: np.tanh(a)),
    "not": ("R.astype(R.equal(a, 0.0), 'float64')", lambda a, b: (a == 0) * 1.0),
    "relu_gate": ("R.where(a > 0.0, b, 0.0)", lambda a, b: np.where(a > 0, b, 0)),
    "sat01_gate": (
        "R.where((a > 0.0) & (a < 1.0), b, 0.0)", lambda a, b: np.where((a > 0) & (a < 1), b, 0)
    ),
    "max": ("R.maximum(a, b)", np.maximum),
    "min": ("R.minimum(a, b)", np.minimum),
    "mod": ("a % b", np.mod),
    "lt": ("R.astype(a < b, 'float64')", lambda a, b: (a < b) * 1.0),
    "eq": ("R.astype(R.equal(a, b), 'float64')", lambda a, b: (a == b) * 1.0),
    "or": ("R.astype(R.not_equal(a, 0.0) | R.not_equal(b, 0.0), 'float64')",
           lambda a, b: ((a != 0) | (b != 0)) * 1.0),
    "where": ("R.where(R.not_equal(a, 0.0), b, a)", lambda a, b: np.where(a != 0, b, a)),
    "fma": ("R.ewise_fma(a, b, a)", lambda a, b: a * b + a),
}  # fmt: skip


def test_syntax_primitive_operations() -> None:
    values_ = ", ".join([f"({text})" for text, _ in OPERATIONS.values()])
    params = 'a: R.Tensor((6,), "float64"), b: R.Tensor((6,), "float64")'
    module = structir.parse(f"@R.function\ndef main({params}):\n    return ({values_})\n")
    a, b = np.array([-1.5, -0.25, 0.5, 0.75, 2, 3]), np.array([2, 0.5, -3, 1.5, 2, -0.5])
    results = structir.interpret(module, "main", a, b)
    for (name, (_, expected)), result in zip(OPERATIONS.items(), results, strict=True):
        np.testing.assert_allclose(result, expected(a, b), err_msg=name)


def shapes_of(params: str, body: str, result: str = "", close: bool = False) -> list[Any]:
    """Returns the inferred shapes of the parameters and of the result."""
    lines = "".join([f"    {line.strip()}\n" for line in body.strip().splitlines()])
    arrow = f' -> R.Tensor({result}, "float32")' if result else ""
    main = structir.infer(
        structir.parse(f"@R.function\ndef main({params}){arrow}:\n{lines}"), close=close
    )["main"]
    infos = [p.struct_info for p in main.params] + [main.ret_struct_info]
    return [str(info).split(", dtype")[0].removeprefix("R.Tensor(") for info in infos]


UNKNOWN = 'R.Tensor(dtype="float32")'
MATRIX = 'R.Tensor(ndim=2, dtype="float32")'


def f32(shape: str) -> str:
    return f'R.Tensor({shape}, "float32")'


PROGRAMS: dict[str, tuple[str, str, str, bool, list[str]]] = {
    # parameters, body, shape of the result, whether shapes are closed, and all shapes
    "syntax-op-mlp-layer": (
        f"w: {MATRIX}, x: {f32('(5, 3)')}, b: {f32('(8,)')}",
        'p = R.einsum((w, x), "o i; *b i -> *b o")\nreturn R.nn.relu(R.add(p, b))',
        "(5, 8)", True, ["(8, 3)", "(5, 3)", "(8,)", "(5, 8)"],
    ),
    "syntax-cd-tensor-multiplication": (
        f"a: {UNKNOWN}, b: {f32('(5, 3)')}", 'return R.einsum((a, b), "*o i; *b i -> *b *o")',
        "(5, 2, 4)", False, ["(2, 4, 3)", "(5, 3)", "(5, 2, 4)"],
    ),
    "syntax-cd-update-of-a-parameter": (
        f"p: {UNKNOWN}, grad: {f32('(3, 4)')}, rate: {f32('()')}",
        "return R.add(p, R.multiply(rate, grad))",
        "(3, 4)", True, ["(3, 4)", "(3, 4)", "()", "(3, 4)"],
    ),
    "slides-inference-flexible-mlp": (
        f"w_out: {MATRIX}, w_hid: {MATRIX}, bias: {f32('(128,)')}, x: {f32('(5, 3)')}",
        """
        h = R.einsum((w_hid, x), "o i; *b i -> *b o")
        r = R.nn.relu(R.add(h, bias))
        return R.einsum((w_out, r), "o i; *b i -> *b o")
        """,
        "(5, 10)", True, ["(10, 128)", "(128, 3)", "(128,)", "(5, 3)", "(5, 10)"],
    ),
    "slides-patterns-layer-norm": (
        f"x: {f32('(5, 3, 4)')}, gamma: {UNKNOWN}, beta: {UNKNOWN}",
        """
        mean = R.mean(x, axis=[1, 2], keepdims=True)
        normalized = R.subtract(x, mean)
        return R.add(R.multiply(gamma, normalized), beta)
        """,
        "(5, 3, 4)", True, ["(5, 3, 4)", "(5, 3, 4)", "(5, 3, 4)", "(5, 3, 4)"],
    ),
    "slides-exercise": (
        f"query: {f32('(2, 5, 8)')}, key: {UNKNOWN}, value: {UNKNOWN}",
        """
        scores = R.einsum((query, key), "batch, seq, dim; batch, time, dim => batch, seq, time")
        weights = R.nn.softmax(scores)
        return R.einsum((weights, value), "batch, seq, time; batch, time, dim => batch, seq, dim")
        """,
        "(2, 5, 7)", False, ["(2, 5, 8)", "(2, time, 8)", "(2, time, 7)", "(2, 5, 7)"],
    ),
    "shapes-transpose": (
        f"x: {UNKNOWN}", 'return R.einsum((x,), "*b o i -> *b i o")',
        "(2, 3, 4)", False, ["(2, 4, 3)", "(2, 3, 4)"],
    ),
    "shapes-pointwise-un": (f"x: {UNKNOWN}", "return R.exp(x)", "(2,)", False, ["(2,)", "(2,)"]),
    "shapes-batch-slice": (
        f'x: {UNKNOWN}, i: R.Tensor((), "int64")', "return R.take(x, i, axis=0)",
        "(3, 4)", False, ["(n, 3, 4)", "()", "(3, 4)"],
    ),
    "shapes-pointwise-tern": (
        f'c: R.Tensor((3, 1), "bool"), x: {f32("(3, 4)")}, y: {UNKNOWN}',
        "return R.where(c, x, y)", "(3, 4)", True, ["(3, 1)", "(3, 4)", "(3, 4)", "(3, 4)"],
    ),
    "shapes-compose-accumulate": (
        f"w: {MATRIX}, x: {f32('(5, 3)')}, b: {UNKNOWN}",
        'p = R.einsum((w, x), "o i; *b i -> *b o")\nreturn R.add(p, b)',
        "(5, 4)", True, ["(4, 3)", "(5, 3)", "(5, 4)", "(5, 4)"],
    ),
    "shapes-exact": (
        f"x: {f32(chr(40) + repr('*s') + ',)')}", f"return R.match_cast(x, {f32('(2, 3)')})",
        "", False, ["(2, 3)", "(2, 3)"],
    ),
    "shapes-strided-total-elements": (
        'x: R.Tensor(("*s", "a", "b"), "float32"), y: R.Tensor(("v",), "float32"), '
        f"z: {f32('(4, 1)')}",
        """
        R.require("elements(*s, a, b) == 64 * v")
        return R.ewise_fma(R.sum(x, axis=[0]), z, z)
        """,
        "", False, ["(16 * v, 4, 1)", "(v,)", "(4, 1)", "(4, 1)"],
    ),
    "shapes-stage-3-terminal-row": (
        f"x: {f32('(3, 4)')}, b: {UNKNOWN}", "return R.add(x, b)",
        "(3, 4)", True, ["(3, 4)", "(3, 4)", "(3, 4)"],
    ),
    "shapes-stage-4-total-elements-of-one-axis": (
        'x: R.Tensor(("*s",), "float32")', 'R.require("elements(*s) == 24")\nreturn R.exp(x)',
        "", True, ["(24,)", "(24,)"],
    ),
    "shapes-stage-5-terminal-size": (
        f"x: {f32('(3, 4)')}, w: {MATRIX}", "return R.matmul(x, w)",
        "", True, ["(3, 4)", "(4, 1)", "(3, 1)"],
    ),
    "shapes-stage-6-no-further-axes": (
        f"x: {f32('(3, 4)')}, b: {UNKNOWN}", "return R.add(x, b)",
        "", True, ["(3, 4)", "()", "(3, 4)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tensor_expression_has_its_shapes(name: str) -> None:
    params, body, result, close, expected = PROGRAMS[name]
    assert shapes_of(params, body, result, close) == expected


def test_slides_custom_operation_has_a_gradient() -> None:
    """The maximum of products; its gradient reaches the operands of the maximum only."""
    text = """
@R.function
def main(a: R.Tensor((3,), "float64"), b: R.Tensor((3,), "float64")):
    p = R.multiply(a, b)
    return R.max(p)
"""
    a, b = np.array([1.0, 4.0, 2.0]), np.array([3.0, 2.0, 1.0])
    module = structir.passes.pipeline("gradient")(structir.parse(text))
    value, grads = structir.interpret(module, "main_adjoint", a, b)
    assert value == 8.0
    assert [g.tolist() for g in grads] == [[0, 2, 0], [0, 4, 0]]
