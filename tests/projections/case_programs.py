"""The programs of the projection cases, built from the registered ops."""

from structir.build import BlockBuilder
from structir.ir.expr import Expr, Function, Var
from structir.ir.op import find_op
from structir.ir.struct_info import TensorStructInfo

PLAIN = {
    "relu": "nn.relu", "exp": "exp", "neg": "negative", "sqrt": "sqrt", "tanh": "tanh",
    "sigmoid": "sigmoid", "identity": "wrap_param", "add": "add", "sub": "subtract",
    "mul": "multiply", "div": "divide", "maximum": "maximum", "minimum": "minimum",
    "where": "where", "matmul": "matmul", "linear": "linear", "cast": "wrap_param",
}  # fmt: skip


def call(name: str, *args: object, **keywords: object) -> Expr:
    op = find_op(name)
    if op is None:
        raise NotImplementedError(f"no op {name}")
    return op(*args, **keywords)


def shape_of(x: Expr) -> tuple[int, ...]:
    return x.struct_info.dims


def windowed(attrs: dict, **names: str) -> dict:
    options = {"stride": "strides", "pad": "padding", "dilation": "dilation", "groups": "groups"}
    return {to: attrs[key] for key, to in {**options, **names}.items() if key in attrs}


def convolution(name: str, xs: list[Expr], attrs: dict) -> Expr:
    y = call(f"nn.{name}", *xs[:2], **windowed(attrs))
    if len(xs) == 2:
        return y
    ones = (1,) * (len(shape_of(y)) - 2)
    return call("add", y, call("reshape", xs[2], (1, *shape_of(xs[2]), *ones)))


def pooling(name: str, xs: list[Expr], attrs: dict) -> Expr:
    options = windowed({k: v for k, v in attrs.items() if k != "dilation"}, kernel="pool_size")
    if name == "nn.avg_pool2d":
        options["count_include_pad"] = False
    return call(name, xs[0], **options)


def sliced(xs: list[Expr], attrs: dict) -> Expr:
    """Returns a slice `begin:end:step` as in Python; end -1 with a negative step is past 0."""
    axis, step, end = attrs["axis"], attrs.get("step", 1), attrs["end"]
    size = shape_of(xs[0])[axis]
    bounds = range(attrs["begin"], end, step)
    if end == -1 and step < 0:
        end = -size - 1
    y = call("strided_slice", xs[0], [axis], [attrs["begin"]], [end], [step])
    assert shape_of(y)[axis] == len(bounds)
    return y


def transposed(xs: list[Expr], attrs: dict) -> Expr:
    if attrs.get("swap_last"):
        rank = len(shape_of(xs[0]))
        return call("permute_dims", xs[0], axes=[*range(rank - 2), rank - 1, rank - 2])
    return call("permute_dims", xs[0], axes=attrs.get("axes"))


def reduced(xs: list[Expr], attrs: dict) -> Expr:
    axis = attrs.get("axis")
    axis = [axis] if isinstance(axis, int) else axis
    return call("sum", xs[0], axis=axis, keepdims=attrs.get("keepdims", False))


def reshaped(xs: list[Expr], attrs: dict) -> Expr:
    return call("reshape", xs[0], tuple(attrs["shape"]))


def flattened(xs: list[Expr], attrs: dict) -> Expr:
    start = attrs.get("start", 0)
    if start == 0:
        return call("flatten", xs[0])
    return call("reshape", xs[0], (*shape_of(xs[0])[:start], -1))


def padded(xs: list[Expr], attrs: dict) -> Expr:
    return call("nn.pad", xs[0], [n for pair in attrs["width"] for n in pair])


def diagonal(xs: list[Expr], attrs: dict) -> Expr:
    rest = "cdefgh"[: len(shape_of(xs[0])) - 2]
    return call("einsum", tuple(xs), f"aa{rest}->a{rest}")


def einsum(xs: list[Expr], attrs: dict) -> Expr:
    """Returns an einsum in the notation of the cases, where `*s` and `~s` are row variables."""
    left, right = attrs["spec"].split("->")
    tokens = dict.fromkeys(t for t in attrs["spec"].replace(";", " ").replace("->", " ").split())
    index_vars = {t: "..." if t[0] in "*~" else t for t in tokens}
    names = iter("abcdefghijklmnopqrstuvwxyz")
    index_vars = {t: s if s == "..." else next(names) for t, s in index_vars.items()}
    sides = ["".join(index_vars[t] for t in part.split()) for part in (*left.split(";"), right)]
    return call("einsum", tuple(xs), f"{','.join(sides[:-1])}->{sides[-1]}")


def embedded(xs: list[Expr], attrs: dict) -> Expr:
    return call("take", xs[1], xs[0], axis=0)


def general_product(xs: list[Expr], attrs: dict) -> Expr:
    turned = [
        call("permute_dims", x) if attrs.get(flag) else x
        for x, flag in zip(xs, ("transA", "transB"), strict=False)
    ]
    y = call("matmul", *turned)
    return call("add", y, xs[2]) if len(xs) > 2 else y


ADAPTED = {
    "gemm": general_product,
    "reshape_like": lambda xs, a: call("reshape", xs[0], shape_of(xs[1])),
    "broadcast_like": lambda xs, a: call("broadcast_to", xs[0], shape_of(xs[1])),
    "transpose": transposed,
    "reduce": reduced,
    "slice": sliced,
    "reshape": reshaped,
    "flatten": flattened,
    "pad": padded,
    "diagonal": diagonal,
    "einsum": einsum,
    "embedding": embedded,
    "conv1d": lambda xs, a: convolution("conv1d", xs, a),
    "conv2d": lambda xs, a: convolution("conv2d", xs, a),
    "max_pool2d": lambda xs, a: pooling("nn.max_pool2d", xs, a),
    "avg_pool2d": lambda xs, a: pooling("nn.avg_pool2d", xs, a),
    "reverse": lambda xs, a: call("flip", xs[0], a["axis"]),
    "softmax": lambda xs, a: call("nn.softmax", xs[0], axis=a["axis"]),
    "cumsum": lambda xs, a: call("cumsum", xs[0], axis=a["axis"]),
    "layer_norm": lambda xs, a: call("nn.layer_norm", *xs, axes=[-1]),
    "repeat": lambda xs, a: call("repeat", xs[0], a["n"], axis=a["axis"]),
    "tile": lambda xs, a: call("tile", xs[0], tuple(a["reps"])),
    "roll": lambda xs, a: call("roll", xs[0], a["shift"], a["axis"]),
    "expand_dims": lambda xs, a: call("expand_dims", xs[0], axis=a["axis"]),
    "squeeze": lambda xs, a: call("squeeze", xs[0], axis=a["axis"]),
    "broadcast_to": lambda xs, a: call("broadcast_to", xs[0], tuple(a["shape"])),
    "concat": lambda xs, a: call("concat", tuple(xs), axis=a["axis"]),
    "stack": lambda xs, a: call("stack", tuple(xs), axis=a["axis"]),
}


def applied(op: str, xs: list[Expr], attrs: dict) -> Expr:
    if op in PLAIN:
        return call(PLAIN[op], *xs)
    if op not in ADAPTED:
        raise NotImplementedError(f"no op {op}")
    return ADAPTED[op](xs, attrs)


def function_of(case: dict) -> tuple[Function, dict[str, Var]]:
    """Returns a case as a function, and its values by name."""
    params = {
        p["name"]: Var(p["name"], TensorStructInfo(tuple(p["shape"]), "float32"))
        for p in case["params"]
    }
    builder, values = BlockBuilder(), dict(params)
    with builder.function("main", list(params.values())):
        for op in case["ops"]:
            xs = [values[name] for name in op["in"]]
            values[op["out"]] = builder.emit(applied(op["op"], xs, op["attrs"]), op["out"])
        builder.emit_func_output(values[case["result"]])
    return builder.functions["main"], values
