"""Schemes of the ops of the case format: size signatures, and conditions on them."""

from collections.abc import Callable
from typing import Any

from structir.solver.constraints.constraint import (
    Constraint,
    DimEq,
    Divides,
    Ge,
    Prod,
    RankLe,
    Reverse,
    RowEq,
    RowLe,
    Sum,
    When,
    Window,
)
from structir.solver.constraints.scheme import Scheme
from structir.solver.constraints.signature import SignatureVars, signature
from structir.solver.domains.terms import Row

Attrs = dict[str, Any]


def split_at(axis: int, letter: str = "a") -> tuple[str, str, str]:
    """Returns the row before an axis, the axis, and the row after it."""
    if axis >= 0:
        return " ".join(f"p{k}" for k in range(axis)), letter, "*t"
    return "*p", letter, " ".join(f"t{k}" for k in range(-axis - 1))


def around(axis: int) -> tuple[str, str]:
    """Returns the rows before and after a new axis."""
    if axis >= 0:
        return " ".join(f"p{k}" for k in range(axis)), "*t"
    return "*p", " ".join(f"t{k}" for k in range(-axis - 1))


def unary(attrs: Attrs, count: int) -> Scheme:
    return signature("*s -> *s")


def binary(attrs: Attrs, count: int) -> Scheme:
    match attrs.get("broadcast", "multi"):
        case "none":
            return signature("*s; *s -> *s")
        case "one":
            return signature("*s; *t -> *s", lambda of: [row_below(of, "t", "s")])
    return signature("~s; ~s -> ~s")


def row_below(of: SignatureVars, inner: str, outer: str) -> RowLe:
    return RowLe((of.row_var(inner),), (of.row_var(outer),))


def where(attrs: Attrs, count: int) -> Scheme:
    return signature("~s; ~s; ~s -> ~s")


def matmul(attrs: Attrs, count: int) -> Scheme:
    mark = "*" if attrs.get("batch") == "equal" else "~"
    return signature(f"{mark}s m k; {mark}s k n -> {mark}s m n")


def gemm(attrs: Attrs, count: int) -> Scheme:
    a = "k m" if attrs.get("transA") else "m k"
    b = "n k" if attrs.get("transB") else "k n"
    if count == 2:
        return signature(f"{a}; {b} -> m n")
    return signature(
        f"{a}; {b}; *c -> m n",
        lambda of: [RowLe((of.row_var("c"),), (of.size("m"), of.size("n")))],
    )


def linear(attrs: Attrs, count: int) -> Scheme:
    return signature("*s k; n k; n -> *s n" if count == 3 else "*s k; n k -> *s n")


def conv(spatial: int) -> Callable[[Attrs, int], Scheme]:
    def scheme(attrs: Attrs, count: int) -> Scheme:
        groups = attrs.get("groups", 1)
        inner, kernel, outer = (
            " ".join(f"{name}{k}" for k in range(spatial)) for name in ("h", "r", "y")
        )
        bias = "; o" if count == 3 else ""

        def conditions(of: SignatureVars) -> list[Any]:
            slides = [
                Window(
                    of.size(f"y{k}"),
                    of.size(f"h{k}"),
                    of.size(f"r{k}"),
                    attrs.get("stride", 1),
                    2 * attrs.get("pad", 0),
                    attrs.get("dilation", 1),
                )
                for k in range(spatial)
            ]
            return [*slides, Divides(groups, of.size("o"))] if groups > 1 else slides

        text = f"n {groups}*c {inner}; o c {kernel}{bias} -> n o {outer}"
        return signature(text, conditions)

    return scheme


def pool2d(attrs: Attrs, count: int) -> Scheme:
    def conditions(of: SignatureVars) -> list[Any]:
        kernel, stride, pad = attrs["kernel"], attrs.get("stride", 1), attrs.get("pad", 0)
        return [Window(of.size(y), of.size(h), kernel, stride, 2 * pad, 1) for y, h in ("ah", "bw")]

    return signature("n c h w -> n c a b", conditions)


def transpose(attrs: Attrs, count: int) -> Scheme:
    axes = attrs.get("axes")
    if axes is None:
        return signature("*s -> *t", lambda of: [Reverse((of.row_var("s"),), (of.row_var("t"),))])
    names = [f"a{k}" for k in range(len(axes))]
    return signature(f"{' '.join(names)} -> {' '.join(names[k] for k in axes)}")


def swap_last(attrs: Attrs, count: int) -> Scheme:
    return signature("*s a b -> *s b a")


def reduce(attrs: Attrs, count: int) -> Scheme:
    axis, keep = attrs.get("axis"), attrs.get("keepdims", False)
    if axis is None:
        return all_reduced() if keep else signature("*s ->")
    axes = [axis] if isinstance(axis, int) else list(axis)
    if not axes:
        return signature("*s -> *s")
    if min(axes) < 0 <= max(axes):
        return reduce_mixed(axes, keep)
    if axes[0] >= 0:
        names = [f"a{k}" for k in range(max(axes) + 1)]
        left = [("1" if k in axes else n) for k, n in enumerate(names) if keep or k not in axes]
        return signature(f"{' '.join(names)} *t -> {' '.join(left)} *t")
    names = [f"a{k}" for k in range(-min(axes))]
    hit = [k - len(names) in axes for k in range(len(names))]
    left = [("1" if h else n) for n, h in zip(names, hit, strict=True) if keep or not h]
    return signature(f"*p {' '.join(names)} -> *p {' '.join(left)}")


def all_reduced() -> Scheme:
    """Returns the constraints of a result with the same rank and only axes of size 1."""
    return signature(
        "*s -> *t",
        lambda of: [
            RankLe((of.row_var("s"),), (of.row_var("t"),)),
            RankLe((of.row_var("t"),), (of.row_var("s"),)),
            Prod((of.row_var("t"),), (1,)),
        ],
    )


def reduce_mixed(axes: list[int], keep: bool) -> Scheme:
    """Returns the constraints of axes given from both ends, which depend on the rank."""

    def emit(row: Row, others: tuple[Row, ...]) -> list[Constraint]:
        rank = len(row)
        if not all(-rank <= axis < rank for axis in axes):
            return [DimEq(rank, max(abs(axis) for axis in axes) + rank + 1)]  # never
        hit = {axis % rank for axis in axes}
        kept = [1 if k in hit else e for k, e in enumerate(row) if keep or k not in hit]
        return [RowEq(others[0], tuple(kept))]

    return signature("*s -> *t", lambda of: [When((of.row_var("s"),), ((of.row_var("t"),),), emit)])


def along(attrs: Attrs, count: int) -> Scheme:
    text = " ".join(split_at(attrs["axis"]))
    return signature(f"{text} -> {text}")


def concat(attrs: Attrs, count: int) -> Scheme:
    before, _, after = split_at(attrs["axis"])
    parts = [f"a{k}" for k in range(count)]
    text = "; ".join(f"{before} {part} {after}" for part in parts)
    return signature(
        f"{text} -> {before} total {after}",
        lambda of: [Sum(of.size("total"), tuple(of.size(p) for p in parts))],
    )


def stack(attrs: Attrs, count: int) -> Scheme:
    before, after = around(attrs["axis"])
    text = "; ".join([f"{before} {after}"] * count)
    return signature(f"{text} -> {before} {count} {after}")


def split(attrs: Attrs, count: int) -> Scheme:
    before, _, after = split_at(attrs["axis"])
    sections = attrs["sections"]
    if isinstance(sections, int):
        parts = ["q"] * sections
        total = f"{sections}*q"
    else:
        parts = [str(s) for s in sections]
        total = str(sum(sections))
    results = "; ".join(f"{before} {part} {after}" for part in parts)
    return signature(f"{before} {total} {after} -> {results}")


def reshape(attrs: Attrs, count: int) -> Scheme:
    shape = " ".join("q" if size == -1 else str(size) for size in attrs["shape"])
    return signature(
        f"*s -> {shape}", lambda of: [Prod((of.row_var("s"),), of.row(shape, result=True))]
    )


def reshape_like(attrs: Attrs, count: int) -> Scheme:
    return signature("*s; *t -> *t", lambda of: [Prod((of.row_var("s"),), (of.row_var("t"),))])


def flatten(attrs: Attrs, count: int) -> Scheme:
    before = " ".join(f"p{k}" for k in range(attrs.get("start", 0)))
    return signature(
        f"{before} a *t -> {before} q",
        lambda of: [Prod((of.size("a"), of.row_var("t")), (of.size("q"),))],
    )


def expand_dims(attrs: Attrs, count: int) -> Scheme:
    before, after = around(attrs["axis"])
    return signature(f"{before} {after} -> {before} 1 {after}")


def squeeze(attrs: Attrs, count: int) -> Scheme:
    before, _, after = split_at(attrs["axis"])
    return signature(f"{before} 1 {after} -> {before} {after}")


def broadcast_to(attrs: Attrs, count: int) -> Scheme:
    shape = tuple(attrs["shape"])
    text = " ".join(map(str, shape))
    return signature(f"*s -> {text}", lambda of: [RowLe((of.row_var("s"),), shape)])


def broadcast_like(attrs: Attrs, count: int) -> Scheme:
    return signature("*s; *t -> *t", lambda of: [row_below(of, "s", "t")])


def slices(attrs: Attrs, count: int) -> Scheme:
    before, _, after = split_at(attrs["axis"])
    kept = len(range(attrs["begin"], attrs["end"], attrs.get("step", 1)))
    return signature(
        f"{before} a {after} -> {before} {kept} {after}",
        lambda of: [Ge(of.size("a"), attrs["end"])],
    )


def pad(attrs: Attrs, count: int) -> Scheme:
    width = attrs["width"]
    names = [f"a{k}" for k in range(len(width))]
    padded = [f"{n}+{sum(w)}" if sum(w) else n for n, w in zip(names, width, strict=True)]
    return signature(f"{' '.join(names)} -> {' '.join(padded)}")


def repeat(attrs: Attrs, count: int) -> Scheme:
    before, _, after = split_at(attrs["axis"])
    return signature(f"{before} a {after} -> {before} {attrs['n']}*a {after}")


def embedding(attrs: Attrs, count: int) -> Scheme:
    return signature("*s; v d -> *s d")


def layer_norm(attrs: Attrs, count: int) -> Scheme:
    return signature("*s d; d; d -> *s d")


def spec(attrs: Attrs, count: int) -> Scheme:
    return signature(attrs["spec"])


SCHEMES: dict[str, Callable[[Attrs, int], Scheme]] = {
    **dict.fromkeys(["relu", "exp", "neg", "sqrt", "tanh", "sigmoid", "identity", "cast"], unary),
    **dict.fromkeys(["add", "sub", "mul", "div", "maximum", "minimum"], binary),
    **dict.fromkeys(("softmax", "cumsum", "reverse"), along),
    **dict.fromkeys(("einsum", "sig"), spec),
    "where": where,
    "matmul": matmul,
    "gemm": gemm,
    "linear": linear,
    "conv1d": conv(1),
    "conv2d": conv(2),
    "pool2d": pool2d,
    "transpose": transpose,
    "swap_last": swap_last,
    "reduce": reduce,
    "concat": concat,
    "stack": stack,
    "split": split,
    "reshape": reshape,
    "reshape_like": reshape_like,
    "flatten": flatten,
    "expand_dims": expand_dims,
    "squeeze": squeeze,
    "broadcast_to": broadcast_to,
    "broadcast_like": broadcast_like,
    "slice": slices,
    "pad": pad,
    "repeat": repeat,
    "embedding": embedding,
    "layer_norm": layer_norm,
}
