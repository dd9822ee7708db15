"""Results of ops over grids of their attributes, by PyTorch, NumPy and ONNX Runtime.

`python tests/data/attribute_grid.py` writes `attribute_grid.npz` anew, in an environment that has
torch, onnx and onnxruntime. Each function below lists the attribute values of some ops and computes
the result of each combination. `tests/ops/test_attribute_grid.py` compares StructIR with them.
"""

import itertools
import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from independent import plain, run_onnx

SEED = 30
MOST = 60  # combinations of one list of options; larger products are sampled
RNG = np.random.default_rng(SEED)
CASES = []
ARRAYS = []
SIZE = 0


def reals(*shape, dtype="float32"):
    """Random multiples of 1/16, which are exact and compress well."""
    return np.asarray(RNG.integers(-40, 40, shape) / 16).astype(dtype)


def positives(*shape):
    return np.asarray(RNG.integers(1, 40, shape) / 16).astype("float32")


def distinct(*shape):
    """Random numbers without ties."""
    count = int(np.prod(shape))
    return (RNG.permutation(count).reshape(shape) / 4 - count / 8).astype("float32")


def integers(low, high, *shape, dtype="int64"):
    return np.asarray(RNG.integers(low, high, shape)).astype(dtype)


def grid(**options):
    """Yields the combinations of options, or a random sample of `MOST` of them."""
    combinations = list(itertools.product(*options.values()))
    if len(combinations) > MOST:
        chosen = sorted(RNG.choice(len(combinations), MOST, replace=False))
        combinations = [combinations[k] for k in chosen]
    for values in combinations:
        yield dict(zip(options, values, strict=True))


def stored(value):
    """Returns a value for the list of cases; arrays by offset, dtype and shape."""
    global SIZE
    if isinstance(value, np.ndarray | np.generic):
        data = np.ascontiguousarray(value).tobytes()
        ARRAYS.append(np.frombuffer(data, np.uint8))
        SIZE += len(data)
        return {"array": [SIZE - len(data), value.dtype.name, list(value.shape)]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [stored(v) for v in value]}
    return {"value": value}


def case(op, result, *args, **keywords):
    """Adds a call and its result; a peer that rejects the call gives none."""
    if callable(result):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = result()
        except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError):
            return
        except Exception as error:  # errors of ONNX Runtime have no common class
            if type(error).__module__.startswith("onnxruntime"):
                return
            raise
    keywords = {name: stored(value) for name, value in keywords.items()}
    row = {"op": op, "args": [stored(a) for a in args], "keywords": keywords}
    CASES.append({**row, "result": stored(plain(result))})


def tensor(array):
    return torch.from_numpy(np.array(array, order="C"))


def pick(array, axis):
    """The tuple of axes that NumPy takes."""
    return tuple(range(array.ndim)) if axis is None else axis


AXES = (None, 0, -1, 1, -2, (0, 2), (-1, 0), (0, 1, 2), (1,))


def reductions():
    functions = {
        "sum": lambda x, a, k: np.sum(x, axis=a, keepdims=k, dtype=x.dtype),
        "prod": lambda x, a, k: np.prod(x, axis=a, keepdims=k, dtype=x.dtype),
        "max": lambda x, a, k: np.max(x, axis=a, keepdims=k),
        "min": lambda x, a, k: np.min(x, axis=a, keepdims=k),
        "mean": lambda x, a, k: np.mean(x, axis=a, keepdims=k),
        "variance": lambda x, a, k: np.var(x, axis=a, keepdims=k),
        "std": lambda x, a, k: np.std(x, axis=a, keepdims=k),
    }
    whole = ("sum", "prod", "max", "min")
    for op, function in functions.items():
        for options in grid(axis=AXES, keepdims=(False, True), shape=((3, 1, 5), (2, 7, 3))):
            x = reals(*options["shape"])
            axis, keepdims = options["axis"], options["keepdims"]
            case(op, function(x, axis, keepdims), x, axis=axis, keepdims=keepdims)
        for dtype in ("float64", *(("int32", "int64") if op in whole else ())):
            x = reals(3, 2, 4, dtype=dtype)
            case(op, function(x, 1, False), x, axis=1)
    for op in ("argmax", "argmin"):
        for options in grid(axis=(None, 0, -1, 1, -3), keepdims=(False, True)):
            x = distinct(3, 4, 5)
            axis, keepdims = options["axis"], options["keepdims"]
            case(op, getattr(np, op)(x, axis=axis, keepdims=keepdims), x, **options)
        for values in ((1.0, 3.0, 3.0, 0.0, 0.0), (2.0, np.nan, 5.0, np.nan), (np.inf, -np.inf)):
            x = np.array(values, "float32")
            case(op, getattr(torch, op)(tensor(x)), x)
    for options in grid(axis=(None, 0, -1, 1), keepdims=(False, True)):
        x = distinct(3, 4, 5)
        if options["axis"] is None:
            case("median", torch.median(tensor(x)), x)
        else:
            case(
                "median",
                torch.median(tensor(x), options["axis"], options["keepdims"]),
                x,
                **options,
            )


def scans():
    for op, numpy_op in (("cumsum", np.cumsum), ("cumprod", np.cumprod)):
        options = {"axis": (None, 0, -1, 1, -2), "dtype": (None, "float64", "float32", "int64")}
        for row in grid(**options, exclusive=(False, True), own=("float32", "int32", "bool")):
            own = row.pop("own")
            x = reals(3, 1, 4).astype(own)
            if row["dtype"] == "int64":
                x = integers(-3, 4, 3, 1, 4, dtype="int32")
            if row["dtype"] is None and x.dtype == bool:
                continue  # the dtype of the result is the library's choice
            y, axis = (x.ravel(), 0) if row["axis"] is None else (x, row["axis"])
            dtype = row["dtype"] or x.dtype
            result = numpy_op(y, axis=axis, dtype=dtype)
            if row["exclusive"]:
                edge = np.full_like(np.take(result, [0], axis), op == "cumprod")
                result = np.concatenate([edge, np.delete(result, -1, axis)], axis)
            case(op, result, x, **row)
    for op in ("cummax", "cummin"):
        for axis in (0, 1, -1, -3):
            for x in (distinct(2, 3, 4), integers(0, 3, 2, 3, 4).astype("float32")):
                case(op, getattr(torch, op)(tensor(x), axis), x, axis=axis)


def sorting():
    for row in grid(axis=(0, 1, -1, -2), descending=(False, True), dtype=("float32", "int32")):
        x = distinct(3, 4, 5).astype(row.pop("dtype"))
        expected = torch.sort(tensor(x), dim=row["axis"], descending=row["descending"], stable=True)
        case("sort", expected[0], x, **row)
    axes, dtypes = (0, 1, -1), ("int32", "int64", "float32")
    for row in grid(axis=axes, descending=(False, True), dtype=dtypes):
        x = distinct(3, 4, 5)
        expected = torch.sort(tensor(x), dim=row["axis"], descending=row["descending"], stable=True)
        case("argsort", expected[1].numpy().astype(row["dtype"]), x, **row)
    for row in grid(
        k=(1, 2, 3),
        axis=(0, 1, -1),
        ret_type=("both", "values", "indices"),
        largest=(False, True),
        dtype=("int32", "int64"),
    ):
        x = distinct(3, 4, 5)
        values, indices = torch.topk(tensor(x), row["k"], row["axis"], row["largest"])
        indices = indices.numpy().astype(row["dtype"])
        both = {"both": (values, indices), "values": values, "indices": indices}
        case("topk", both[row["ret_type"]], x, **row)
    edges = np.array([-1.0, 0.0, 0.5, 2.0], "float32")
    for row in grid(out_int32=(False, True), right=(False, True), shape=((), (5,), (2, 3))):
        x = reals(*row.pop("shape"))
        case("bucketize", torch.bucketize(tensor(x), tensor(edges), **row), x, edges, **row)
    flags = ("return_index", "return_inverse", "return_counts")
    for row in grid(**{name: (False, True) for name in flags}, axis=(None, 0, 1)):
        x = integers(0, 3, 4, 3)
        expected = np.unique(x, **row)
        if row["return_inverse"]:
            inverse = 1 + row["return_index"]
            expected = (*expected[:inverse], expected[inverse].ravel(), *expected[inverse + 1 :])
        case("unique", expected, x, **row)


def indexing():
    for row in grid(
        mode=("fast", "clip", "wrap", "nan"), axis=(None, 0, 1, -1), shape=((), (3,), (2, 2))
    ):
        shape, mode, axis = row.pop("shape"), row["mode"], row["axis"]
        x = reals(4, 3, 5) if axis is not None else reals(7)
        size = x.shape[axis or 0]
        i = integers(0, size, *shape) if mode in ("fast", "nan") else integers(-20, 20, *shape)
        own = {"fast": "raise", "nan": "raise"}.get(mode, mode)
        case("take", np.take(x, i, axis, mode=own), x, i, **row)
    for axis in (0, 1, -1, -3):
        x, i = reals(4, 3, 5), integers(0, 3, 2, 3, 5)
        case(
            "gather_elements",
            lambda: run_onnx("GatherElements", [x, i], axis=axis),
            x,
            i,
            axis=axis,
        )
    for batch, shape in (
        (0, (2, 1)),
        (0, (2, 3)),
        (0, (5, 2, 2)),
        (1, (4, 2, 1)),
        (1, (4, 1)),
        (2, (4, 3, 1)),
    ):
        x, i = reals(4, 3, 5), integers(0, 3, *shape)
        case(
            "gather_nd",
            lambda: run_onnx("GatherND", [x, i], batch_dims=batch),
            x,
            i,
            batch_dims=batch,
        )
    names = {"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}
    for row in grid(axis=(0, 1, -1, -2), reduction=tuple(names), dtype=("float32", "int32")):
        dtype = row.pop("dtype")
        x, new = reals(4, 3, dtype=dtype), reals(2, 3, dtype=dtype)
        i = np.stack([RNG.permutation(3)[:2] for _ in range(3)], 1)
        if row["axis"] in (1, -1):
            i = np.stack([RNG.permutation(3) for _ in range(2)])
        how = {"axis": row["axis"], "reduction": names[row["reduction"]]}
        case(
            "scatter_elements",
            lambda: run_onnx("ScatterElements", [x, i, new], **how),
            x,
            i,
            new,
            **row,
        )
    for row in grid(reduction=tuple(names), depth=(1, 2), dtype=("float32", "int64")):
        dtype, depth = row.pop("dtype"), row.pop("depth")
        x = reals(4, 3, 2, dtype=dtype)
        i = np.array([[3], [2]]) if depth == 1 else np.array([[3, 1], [0, 2]])
        new = reals(2, *x.shape[depth:], dtype=dtype)
        how = {"reduction": names[row["reduction"]]}
        case("scatter_nd", lambda: run_onnx("ScatterND", [x, i, new], **how), x, i, new, **row)
    for row in grid(accumulate=(False, True), shape=((2,), (2, 2))):
        shape = row.pop("shape")
        x = reals(5, 3)
        i = RNG.permutation(5)[:4][: int(np.prod(shape))].reshape(shape)
        new = reals(*shape, 3)
        case("index_put", tensor(x).index_put((tensor(i),), tensor(new), **row), x, [i], new, **row)
    for axis, (start, end, step) in itertools.product(
        (0, 1, -1), ((0, 4, 2), (1, 4, 1), (-3, 4, 1), (0, 99, 3))
    ):
        x = reals(4, 4)
        at = [slice(None)] * 2
        at[axis] = slice(start, end, step)
        new = reals(*x[tuple(at)].shape)
        expected = torch.slice_scatter(tensor(x), tensor(new), axis, start, end, step)
        case("slice_scatter", expected, x, new, start, end, step, axis=axis)
    for seq, batch in ((1, 0), (0, 1)):
        x, n = reals(4, 5, 3), integers(1, 4, (4, 5)[batch])
        how = {"time_axis": seq, "batch_axis": batch}
        case(
            "reverse_sequence",
            lambda: run_onnx("ReverseSequence", [x, n], **how),
            x,
            n,
            seq_axis=seq,
            batch_axis=batch,
        )
    for axis, depth in itertools.product((0, 1, 2, -1, -2, -3), (1, 4, 7)):
        i = integers(-3, depth + 2, 2, 3)
        values = np.array([-1.5, 2.5], "float32")
        expected = run_onnx("OneHot", [i % depth, np.array(depth), values], axis=axis)
        case("one_hot", expected.astype("float64"), i % depth, 2.5, -1.5, depth, axis=axis)


def moving():
    x = reals(2, 3, 1, 5)
    for axes in (None, *itertools.permutations(range(4))):
        own = axes if axes is None or RNG.random() < 0.5 else tuple(a - 4 for a in axes)
        case("permute_dims", np.transpose(x, axes), x, axes=own)
    y = reals(3, 4)
    for axis in (0, 1, 2, -1, -2, -3, (0, 1), (0, -1), (-1, -2), (1, 3), (0, 1, 2)):
        case("expand_dims", np.expand_dims(y, axis), y, axis=axis)
    y = reals(1, 3, 1, 1)
    for axis in (None, 0, 2, -1, -2, (0, 2), (-1, 0), (0, 2, 3), (2,)):
        case("squeeze", np.squeeze(y, axis), y, axis=axis)
    for axis in (0, 1, 3, -1, -4):
        case("flip", np.flip(x, axis), x, axis=axis)
    for shift, axis in ((3, 2), (-2, 0), (7, 1), (-9, -1), ((1, 2), (0, 3)), ((-1, 4), (-1, 1))):
        case("roll", np.roll(x, shift, axis), x, shift, axis=axis)
    for repeats, axis in itertools.product((1, 2, 3), (None, 0, 1, -1, -4)):
        case("repeat", np.repeat(x, repeats, axis), x, repeats, axis=axis)
    for repeats in ((2,), (1, 2), (3, 1, 2), (2, 1, 1, 3), (1, 2, 1, 1, 2), (1, 1)):
        case("tile", np.tile(x, repeats), x, repeats)
    for axis, sizes in itertools.product((0, 1, -1, -3), ((1, 2), (3, 1, 2), (2, 0, 1))):
        parts = []
        for size in sizes:
            shape = [2, 3, 4]
            shape[axis] = size
            parts.append(reals(*shape))
        case("concat", np.concatenate(parts, axis), parts, axis=axis)
    for axis, count in itertools.product((0, 1, 2, -1, -3), (1, 2, 3)):
        parts = [reals(2, 3) for _ in range(count)]
        case("stack", np.stack(parts, axis), parts, axis=axis)
    x = reals(6, 4, 9)
    for axis, sections in itertools.product(
        (0, 1, 2, -1, -3), (1, 2, 3, 4, 6, 9, (1,), (1, 3), (2, 2), (0, 3), (3, 4, 4))
    ):
        size = x.shape[axis]
        if isinstance(sections, tuple) or size % sections == 0:
            where = list(sections) if isinstance(sections, tuple) else sections
            expected = tuple(np.split(x, where, axis))
            case("split", expected if len(expected) > 1 else expected[0], x, sections, axis=axis)
    for indexing, sizes in itertools.product(("ij", "xy"), ((3,), (2, 3), (2, 1, 4), (1, 2, 3, 2))):
        parts = [reals(n) for n in sizes]
        case("meshgrid", tuple(np.meshgrid(*parts, indexing=indexing)), parts, indexing=indexing)
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    for row in grid(
        mode=tuple(modes),
        widths=((0, 0, 1, 2), (2, 1, 0, 3), (1, 1, 1, 1), (0, 2, 3, 0)),
        value=(0.0, -1.5),
    ):
        y, w = reals(3, 4), row["widths"]
        if row["mode"] != "constant" and row["value"]:
            continue
        extra = {"constant_values": row["value"]} if row["mode"] == "constant" else {}
        expected = np.pad(y, ((w[0], w[1]), (w[2], w[3])), modes[row["mode"]], **extra)
        case(
            "nn.pad",
            expected,
            y,
            w,
            pad_mode={"replicate": "edge"}.get(row["mode"], row["mode"]),
            pad_value=row["value"],
        )
    x = reals(5, 6)
    bounds = (0, 2, 4, -1, -3, -9, 9)
    for row in grid(begin=bounds, end=bounds, stride=(1, 2, 3, -1, -2), axis=(0, 1, -1)):
        at = [slice(None)] * 2
        at[row["axis"]] = slice(row["begin"], row["end"], row["stride"])
        if row["stride"] > 0:
            expected = x[tuple(at)]
        else:
            how = [np.array([row[name]]) for name in ("begin", "end", "axis", "stride")]
            expected = run_onnx("Slice", [x, *how])
        case(
            "strided_slice",
            expected,
            x,
            (row["axis"],),
            (row["begin"],),
            (row["end"],),
            strides=(row["stride"],),
        )
    for op, k in itertools.product(("tril", "triu"), (-9, -2, -1, 0, 1, 3, 9)):
        y = reals(2, 3, 4)
        case(op, getattr(np, op)(y, k), y, k)
    for factor, shape in ((1, (1, 2, 2, 3)), (2, (2, 4, 1, 3)), (3, (1, 18, 2, 1))):
        y = reals(*shape)
        case("nn.pixel_shuffle", F.pixel_shuffle(tensor(y), factor), y, upscale_factor=factor)


def products():
    shapes = (
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
        ((1, 3, 4), (5, 4, 1)),
    )
    shapes += (
        ((2, 1, 3, 1), (3, 1, 2)),
        ((1, 1), (1, 1)),
        ((7, 13), (13, 11)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
    )
    for (a, b), (dtype, out) in itertools.product(
        shapes,
        (
            ("float32", None),
            ("float64", None),
            ("int32", None),
            ("float32", "float64"),
            ("float32", "float32"),
        ),
    ):
        x, y = reals(*a, dtype=dtype), reals(*b, dtype=dtype)
        expected = np.matmul(x.astype(out or dtype), y.astype(out or dtype))
        case("matmul", expected, x, y, out_dtype=out)
    for shape, bias, out in itertools.product(
        ((4,), (3, 4), (2, 3, 4)), (True, False), (None, "float64")
    ):
        x, w, b = reals(*shape), reals(5, 4), reals(5)
        expected = x.astype(out or x.dtype) @ w.astype(out or w.dtype).T + (b if bias else 0)
        case("linear", expected.astype(out or x.dtype), x, w, *([b] if bias else []), out_dtype=out)
    texts = (
        "ij,jk",
        "ij,jk->ki",
        "ij->ji",
        "ij->",
        "ij->i",
        "ii->",
        "bij,bkj->bik",
        "i,i->",
        "i,j->ij",
        "ijk,jil->kl",
    )
    texts += (
        "...ij,...jk->...ik",
        "bhqd,bhkd->bhqk",
        "ij,jk,kl->il",
        "iij->j",
        "ij,ij->ij",
        "ba,b->a",
    )
    sizes = dict(zip("ijklbhqda", (2, 3, 4, 1, 2, 3, 2, 5, 3), strict=True))
    for text in texts:
        for _ in range(2):
            parts = [
                reals(*[2, 1] * ("..." in p), *[sizes[c] for c in p.replace("...", "")])
                for p in text.split("->")[0].split(",")
            ]
            case("einsum", np.einsum(text, *parts), parts, text)


def windows():
    sizes = {1: (9,), 2: (7, 8), 3: (4, 5, 3)}
    layouts = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
    for rank in (1, 2, 3):
        last = layouts[rank][1]
        for row in grid(
            kernel=(1, 2, 3),
            stride=(1, 2, 3),
            padding=(0, 1),
            dilation=(1, 2),
            ceil=(False, True),
            channels=(False, True),
        ):
            x = distinct(2, 3, *sizes[rank])
            how = {"stride": row["stride"], "padding": row["padding"], "ceil_mode": row["ceil"]}
            own = {"pool_size": (row["kernel"],) * rank, "strides": (row["stride"],) * rank}
            own |= {"padding": (row["padding"],) * rank, "ceil_mode": row["ceil"]}
            back = row["channels"]
            given = np.moveaxis(x, 1, -1) if back else x
            layout = {"layout": last} if back else {}

            def pooled(name, give_back=back, x=x, row=row, how=how, rank=rank, **more):
                expected = getattr(F, f"{name}_pool{rank}d")(
                    tensor(x), row["kernel"], **how, **more
                )
                return expected.movedim(1, -1) if give_back else expected

            dilation = (row["dilation"],) * rank
            case(
                f"nn.max_pool{rank}d",
                lambda: pooled("max", dilation=row["dilation"]),
                given,
                dilation=dilation,
                **own,
                **layout,
            )
            for included in (False, True) if row["dilation"] == 1 else ():
                case(
                    f"nn.avg_pool{rank}d",
                    lambda: pooled("avg", count_include_pad=included),
                    given,
                    count_include_pad=included,
                    **own,
                    **layout,
                )
        for row in grid(
            kernel=(2, 3),
            stride=(1, 2, 3),
            first=(0, 1),
            second=(0, 1),
            ceil=(0, 1),
            included=(0, 1),
        ):
            x = distinct(1, 2, *sizes[rank])
            pads = [row["first"]] * rank + [row["second"]] * rank
            how = {"kernel_shape": [row["kernel"]] * rank, "strides": [row["stride"]] * rank}
            how |= {"pads": pads, "ceil_mode": row["ceil"]}
            own = {"pool_size": (row["kernel"],) * rank, "strides": (row["stride"],) * rank}
            own |= {"padding": tuple(pads), "ceil_mode": bool(row["ceil"])}
            case(f"nn.max_pool{rank}d", lambda: run_onnx("MaxPool", [x], **how), x, **own)
            more = {"count_include_pad": row["included"]}
            if not row["ceil"]:  # ONNX Runtime counts windows of `ceil_mode` in two ways
                case(
                    f"nn.avg_pool{rank}d",
                    lambda: run_onnx("AveragePool", [x], opset=19, **how, **more),
                    x,
                    count_include_pad=bool(row["included"]),
                    **own,
                )
        for output, back in itertools.product((1, 2, 3, 4, None), (False, True)):
            x = reals(2, 3, *sizes[rank])
            expected = getattr(F, f"adaptive_avg_pool{rank}d")(
                tensor(x), (output,) * rank if output else sizes[rank]
            )
            given, layout = (np.moveaxis(x, 1, -1), {"layout": last}) if back else (x, {})
            output_size = None if output is None else (output,) * rank
            result = expected.movedim(1, -1) if back else expected
            case(f"nn.adaptive_avg_pool{rank}d", result, given, output_size=output_size, **layout)


def convolutions():
    sizes = {1: (9,), 2: (6, 7), 3: (4, 5, 3)}
    layouts = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
    kernels = {1: "WIO", 2: "HWIO", 3: "DHWIO"}
    for rank in (1, 2, 3):
        for row in grid(
            kernel=(1, 2, 3),
            stride=(1, 2, 3),
            padding=(0, 1, 2),
            dilation=(1, 2),
            groups=(1, 2, 4),
            last=(False, True),
            out_dtype=(None, "float64"),
        ):
            x = reals(1, 4, *sizes[rank])
            w = reals(4 * (row["groups"] % 4 + 1), 4 // row["groups"], *(row["kernel"],) * rank)
            how = {name: row[name] for name in ("stride", "padding", "dilation", "groups")}

            def convolved(x=x, w=w, how=how, rank=rank, row=row):
                dtype = torch.float64 if row["out_dtype"] else torch.float32
                expected = getattr(F, f"conv{rank}d")(
                    tensor(x).to(dtype), tensor(w).to(dtype), **how
                )
                return expected.movedim(1, -1) if row["last"] else expected

            own = {"strides": row["stride"], "padding": row["padding"], "dilation": row["dilation"]}
            own |= {"groups": row["groups"], "out_dtype": row["out_dtype"]}
            if row["last"]:
                own |= {"data_layout": layouts[rank][1]}
                if row["groups"] == 1:
                    own |= {"kernel_layout": kernels[rank]}
            given = np.moveaxis(x, 1, -1) if row["last"] else x
            weight = np.moveaxis(w, (0, 1), (-1, -2)) if "kernel_layout" in own else w
            case(f"nn.conv{rank}d", convolved, given, weight, **own)
        for row in grid(
            kernel=(1, 2, 3),
            stride=(1, 2, 3),
            padding=(0, 1),
            dilation=(1, 2),
            groups=(1, 2),
            output_padding=(0, 1),
        ):
            x = reals(1, 4, *(n - 1 for n in sizes[rank]))
            w = reals(4, 3, *(row["kernel"],) * rank)
            how = {n: row[n] for n in ("stride", "padding", "dilation", "groups", "output_padding")}
            own = {"strides": row["stride"], **{n: how[n] for n in how if n != "stride"}}

            def spread(x=x, w=w, how=how, rank=rank):
                return getattr(F, f"conv_transpose{rank}d")(tensor(x), tensor(w), **how)

            case(f"nn.conv{rank}d_transpose", spread, x, w, **own)


def uneven_windows():
    """Windows whose sizes differ by axis."""
    for row in grid(
        kernel=((1, 3), (2, 3), (3, 2), (2, 2)),
        stride=((1, 2), (2, 1), (2, 2), (3, 2)),
        padding=((0, 0), (0, 1), (1, 0)),
        shape=((6, 7), (4, 3), (3, 8)),
    ):
        shape = row.pop("shape")
        x, kernel = reals(1, 4, *shape), row.pop("kernel")
        w = reals(2, 2, *kernel)
        own = {"strides": row["stride"], "padding": row["padding"]}
        case(
            "nn.conv2d",
            lambda: F.conv2d(tensor(x), tensor(w), groups=2, **row),
            x,
            w,
            groups=2,
            **own,
        )
        w = reals(4, 3, *kernel)
        for extra in ((0, 0), (1, 0), (0, 1)):
            more = {"output_padding": extra}
            case(
                "nn.conv2d_transpose",
                lambda: F.conv_transpose2d(tensor(x), tensor(w), **row, **more),
                x,
                w,
                **own,
                **more,
            )
        for ceil in (False, True):
            pool = {"ceil_mode": ceil, "pool_size": kernel, **own}
            case(
                "nn.max_pool2d",
                lambda: F.max_pool2d(tensor(x), kernel, ceil_mode=ceil, **row),
                x,
                **pool,
            )
            how = {"ceil_mode": ceil, "count_include_pad": bool(shape[0] % 2)}
            pool["count_include_pad"] = how["count_include_pad"]
            case("nn.avg_pool2d", lambda: F.avg_pool2d(tensor(x), kernel, **how, **row), x, **pool)


def norms():
    x = reals(2, 4, 3, 5)
    for op, function in (("nn.softmax", F.softmax), ("nn.log_softmax", F.log_softmax)):
        for axis in (0, 1, 2, 3, -1, -2, -3, -4):
            case(op, function(tensor(x), axis), x, axis=axis)
    for row in grid(
        axes=((-1,), (-2, -1), (1, 2, 3), (3,), (2, 3)),
        epsilon=(1e-5, 0.1),
        center=(False, True),
        scale=(False, True),
    ):
        shape = x.shape[-len(row["axes"]) :]
        g, b = positives(*shape), reals(*shape)
        used = tensor(g) if row["scale"] else None, tensor(b) if row["center"] else None
        case("nn.layer_norm", F.layer_norm(tensor(x), shape, *used, row["epsilon"]), x, g, b, **row)
    for row in grid(axes=((-1,), (-2, -1), (1, 2, 3)), epsilon=(1e-5, 0.1)):
        g = positives(*x.shape[-len(row["axes"]) :])
        case("nn.rms_norm", F.rms_norm(tensor(x), g.shape, tensor(g), row["epsilon"]), x, g, **row)
    g, b = positives(4), reals(4)
    for row in grid(
        num_groups=(1, 2, 4),
        epsilon=(1e-5, 0.1),
        center=(False, True),
        scale=(False, True),
        last=(False, True),
    ):
        last = row.pop("last")
        used = tensor(g) if row["scale"] else None, tensor(b) if row["center"] else None
        expected = F.group_norm(tensor(x), row["num_groups"], *used, row["epsilon"])
        where = (
            {"channel_axis": -1, "axes": (1, 2)} if last else {"channel_axis": 1, "axes": (2, 3)}
        )
        given = np.moveaxis(x, 1, -1) if last else x
        case(
            "nn.group_norm",
            expected.movedim(1, -1) if last else expected,
            given,
            g,
            b,
            **row,
            **where,
        )
    for row in grid(epsilon=(1e-5, 0.1), center=(False, True), scale=(False, True)):
        used = {
            "weight": tensor(g) if row["scale"] else None,
            "bias": tensor(b) if row["center"] else None,
        }
        expected = F.instance_norm(tensor(x), **used, eps=row["epsilon"])
        case("nn.instance_norm", expected, x, g, b, channel_axis=1, axes=(2, 3), **row)
    for row in grid(
        epsilon=(1e-5, 0.1),
        center=(False, True),
        scale=(False, True),
        training=(False, True),
        momentum=(0.1, 0.7),
        axis=(1, -1),
    ):
        mean, var = reals(4), positives(4)
        moving = tensor(mean.copy()), tensor(var.copy())
        used = tensor(g) if row["scale"] else None, tensor(b) if row["center"] else None
        expected = F.batch_norm(
            tensor(x), *moving, *used, row["training"], row["momentum"], row["epsilon"]
        )
        if row["training"]:  # torch keeps the unbiased variance, ONNX and StructIR the biased one
            biased = tensor(np.var(x, (0, 2, 3)))
            moving = moving[0], (1 - row["momentum"]) * tensor(var) + row["momentum"] * biased
        given = np.moveaxis(x, 1, -1) if row["axis"] == -1 else x
        expected = expected.movedim(1, -1) if row["axis"] == -1 else expected
        case("nn.batch_norm", (expected, *moving), given, g, b, mean, var, **row)
    for row in grid(
        reduction=("none", "sum", "mean"),
        ignore_index=(-100, 0, 2),
        weights=(False, True),
        shape=((5,), (3, 2), (2, 2, 2)),
    ):
        shape = row.pop("shape")
        scores, labels = reals(shape[0], 3, *shape[1:]), integers(0, 3, *shape)
        weight = [positives(3)] if row.pop("weights") else []
        expected = F.nll_loss(tensor(scores), tensor(labels), *map(tensor, weight), **row)
        case("nn.nll_loss", expected, scores, labels, *weight, **row)
    for row in grid(
        scale=(None, 0.3),
        causal_mask=(None, "TopLeft"),
        bias=(False, True),
        lengths=((3, 3), (2, 5), (5, 2)),
    ):
        n, m = row["lengths"]
        q, k, v = reals(2, n, 2, 4), reals(2, m, 2, 4), reals(2, m, 2, 3)
        mask = reals(2, 2, n, m) if row["bias"] else np.zeros((1, 1, n, m), "float32")
        if row["causal_mask"]:
            mask = np.where(np.tri(n, m, dtype=bool), mask, -np.inf).astype("float32")
        heads = [tensor(a).transpose(1, 2) for a in (q, k, v)]
        expected = F.scaled_dot_product_attention(
            *heads, attn_mask=tensor(mask), scale=row["scale"]
        )
        bias = [mask] if row["bias"] else []
        if row["bias"] and row["causal_mask"]:
            continue
        own = {"scale": row["scale"], "causal_mask": row["causal_mask"]}
        case("nn.attention", expected.transpose(1, 2), q, k, v, *bias, **own)


def images():
    methods = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
    roundings = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    where = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    for row in grid(
        method=tuple(methods),
        where=where,
        size=((7, 3), (3, 8), (4, 5), (1, 1)),
        alpha=(-0.75, -0.5),
        exclude=(0, 1),
    ):
        x = reals(1, 2, 4, 5)
        how = {"mode": methods[row["method"]], "coordinate_transformation_mode": row["where"]}
        own = {"method": row["method"], "coordinate_transformation_mode": row["where"]}
        if row["method"] == "nearest_neighbor":
            how["nearest_mode"] = own["rounding_method"] = roundings[RNG.integers(4)]
        if row["method"] == "cubic":
            how |= {"cubic_coeff_a": row["alpha"], "exclude_outside": row["exclude"]}
            own |= {"cubic_alpha": row["alpha"], "cubic_exclude": row["exclude"]}
        sizes = np.array([1, 2, *row["size"]])
        case(
            "image.resize2d",
            lambda: run_onnx("Resize", [x, None, None, sizes], **how),
            x,
            row["size"],
            **own,
        )
    for row in grid(
        method=("nearest_neighbor", "linear"),
        where=where[:3],
        size=((2, 3, 4), (5, 1, 2), (3, 4, 3)),
    ):
        x = reals(1, 1, 3, 4, 3)
        how = {"mode": methods[row["method"]], "coordinate_transformation_mode": row["where"]}
        own = {"method": row["method"], "coordinate_transformation_mode": row["where"]}
        if row["method"] == "nearest_neighbor":
            how["nearest_mode"] = own["rounding_method"] = "floor"
        sizes = np.array([1, 1, *row["size"]])
        case(
            "image.resize3d",
            lambda: run_onnx("Resize", [x, None, None, sizes], **how),
            x,
            row["size"],
            **own,
        )
    for row in grid(
        method=("bilinear", "nearest", "bicubic"),
        padding_mode=("zeros", "border", "reflection"),
        align_corners=(True, False),
    ):
        x, places = reals(1, 2, 4, 5), (reals(1, 2, 3, 3) / 2).astype("float32")
        places += np.float32(0.013)
        expected = F.grid_sample(
            tensor(x),
            tensor(np.moveaxis(places, 1, -1)),
            row["method"],
            row["padding_mode"],
            row["align_corners"],
        )
        case("image.grid_sample", expected, x, places, **row)
    for corners, size in itertools.product((True, False), ((3, 4), (1, 5), (2, 2))):
        maps = reals(2, 2, 3)
        expected = F.affine_grid(tensor(maps), (2, 1, *size), corners).permute(0, 3, 1, 2)
        case("image.affine_grid", expected, maps, size, align_corners=corners)
    for axis, dtype in itertools.product((0, 1, -1, -2), ("int8", "uint8")):
        x = (20 * reals(3, 3)).astype("float32")
        scale, zero = np.array([0.5, 0.25, 1.5], "float32"), np.array([1, 3, 0], dtype)
        expected = run_onnx("QuantizeLinear", [x, scale, zero], axis=axis)
        case("quantize", expected, x, scale, zero, axis=axis, out_dtype=dtype)
        case(
            "dequantize",
            run_onnx("DequantizeLinear", [expected, scale, zero], axis=axis),
            expected,
            scale,
            zero,
            axis=axis,
        )
    for row in grid(
        sample_ratio=(1, 2, 3),
        aligned=(False, True),
        pooled_size=((1, 1), (3, 2)),
        spatial_scale=(0.5, 1.0),
    ):
        x = reals(2, 2, 6, 7)
        rois = np.array([[0, 1, 1, 5, 4], [1, 0, 2, 6, 5]], "float32")
        how = {
            "coordinate_transformation_mode": "half_pixel"
            if row["aligned"]
            else "output_half_pixel",
            "mode": "avg",
        }
        how |= {"output_height": row["pooled_size"][0], "output_width": row["pooled_size"][1]}
        how |= {"sampling_ratio": row["sample_ratio"], "spatial_scale": row["spatial_scale"]}
        case(
            "vision.roi_align",
            run_onnx("RoiAlign", [x, rois[:, 1:], rois[:, 0].astype("int64")], **how),
            x,
            rois,
            **row,
        )


DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")


def creation():
    for dtype in DTYPES:
        for op in ("zeros", "ones"):
            case(op, getattr(np, op)((2, 1, 3), dtype), (2, 1, 3), dtype)
            case(
                f"{op}_like",
                getattr(np, f"{op}_like")(np.empty((2, 3), dtype)),
                reals(2, 3),
                dtype=dtype,
            )
            x = reals(3, 1).astype(dtype)
            case(f"{op}_like", getattr(np, f"{op}_like")(x), x)
        value = np.array(3, dtype)
        case("full", np.full((3, 2), value), (3, 2), value)
        case("full", np.full((3,), 1).astype(dtype), (3,), np.array(1.0, "float32"), dtype=dtype)
        for n, m, k in ((3, 3, 0), (2, 5, 1), (4, 2, -1), (3, 3, 9), (1, 1, -3)):
            case("eye", np.eye(n, m, k, dtype), n, m, k, dtype)
    for dtype in ("float32", "float64", "int32", "int64"):
        for start, end, step in ((0, 5, 1), (2, 9, 3), (9, 2, -2), (5, 5, 1), (-3, 3, 2)):
            case("arange", np.arange(start, end, step).astype(dtype), start, end, step, dtype=dtype)
    for periodic, size, (a, b) in itertools.product(
        (True, False), (1, 2, 7, 8), ((0.54, 0.46), (0.5, 0.5))
    ):
        case("hamming_window", torch.hamming_window(size, periodic, a, b), size, periodic, a, b)
    for own, dtype in itertools.product(DTYPES, DTYPES):
        x = integers(0, 3, 2, 3).astype(own)
        case("astype", x.astype(dtype), x, dtype)


def elementwise():
    unary = {
        "abs": np.abs,
        "negative": np.negative,
        "sign": np.sign,
        "square": np.square,
        "ceil": np.ceil,
        "floor": np.floor,
        "round": np.round,
        "trunc": np.trunc,
        "exp": np.exp,
        "sin": np.sin,
        "cos": np.cos,
        "tan": np.tan,
        "tanh": np.tanh,
        "sinh": np.sinh,
        "cosh": np.cosh,
        "atan": np.arctan,
        "asinh": np.arcsinh,
        "isnan": np.isnan,
        "isinf": np.isinf,
        "isfinite": np.isfinite,
        "logical_not": np.logical_not,
        "bitwise_not": np.invert,
    }
    whole = ("abs", "negative", "sign", "square")
    shapes = ((), (1,), (0, 3), (2, 1, 5), (17,))
    for (op, function), shape in itertools.product(unary.items(), shapes):
        dtype = {"logical_not": "bool", "bitwise_not": "int32"}.get(op, "float32")
        x = reals(*shape).astype(dtype)
        case(op, np.asarray(function(x)), x)
        for other in ("float64", *(("int32", "int64", "int8") if op in whole else ())):
            if dtype == "float32":
                x = reals(*shape).astype(other)
                case(op, np.asarray(function(x)), x)
    binary = {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "equal": np.equal,
        "not_equal": np.not_equal,
        "less": np.less,
        "less_equal": np.less_equal,
        "greater": np.greater,
        "greater_equal": np.greater_equal,
        "floor_divide": np.floor_divide,
        "floor_mod": np.remainder,
        "mod": np.fmod,
    }
    pairs = (((), ()), ((3, 1), (1, 4)), ((2, 3), (3,)), ((0, 1), (1, 2)), ((1,), (5, 1, 3)))
    for (op, function), (a, b), dtype in itertools.product(
        binary.items(), pairs, ("float32", "int32", "int8")
    ):
        x, y = reals(*a).astype(dtype), reals(*b).astype(dtype)
        if "div" in op or "mod" in op:
            y = np.where(y == 0, 2, y).astype(dtype)
        case(op, np.asarray(function(x, y)), x, y)
    for row in grid(min=(-1.0, 0.5, -9.0), max=(0.75, 9.0, 0.5), dtype=("float32", "int32")):
        x = reals(3, 5).astype(row.pop("dtype"))
        if x.dtype == np.int32:
            row = {"min": int(row["min"]), "max": int(row["max"])}
        case("clip", np.clip(x, row["min"], row["max"]).astype(x.dtype), x, **row)
    for alpha in (0.01, 0.0, 0.5, 1.5, -0.2):
        x = reals(7)
        case("nn.leakyrelu", F.leaky_relu(tensor(x), alpha), x, alpha=alpha)
    for beta, threshold in itertools.product((0.5, 1.0, 3.0), (1.0, 5.0, 20.0)):
        x = 4 * reals(9)
        case(
            "nn.softplus", F.softplus(tensor(x), beta, threshold), x, beta=beta, threshold=threshold
        )
    for axis in (0, 1, 2, -1, -2):
        x = reals(2, 3, 4)
        slope = reals(x.shape[axis])
        shape = [1, 1, 1]
        shape[axis] = -1
        case("nn.prelu", np.where(x >= 0, x, x * slope.reshape(shape)), x, slope, axis=axis)


FAMILIES = (reductions, scans, sorting, indexing, moving, products, windows, convolutions)
FAMILIES += (uneven_windows,)
FAMILIES += (norms, images, creation, elementwise)


def main():
    np.seterr(all="ignore")
    for family in FAMILIES:
        family()
    versions = {m.__name__: m.__version__ for m in (np, torch, onnx, onnxruntime)}
    described = json.dumps({"versions": versions, "cases": CASES})
    path = Path(__file__).with_suffix(".npz")
    np.savez_compressed(path, described=np.array(described), data=np.concatenate(ARRAYS))
    print(
        len(CASES), "cases of", len({c["op"] for c in CASES}), "ops,", path.stat().st_size, "bytes"
    )


if __name__ == "__main__":
    main()
