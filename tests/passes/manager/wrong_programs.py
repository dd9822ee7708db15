"""Programs with 0 to 4 symbolic dims, whose rewrites `wrong_rewrites.py` mutates.

Each is a name, the parameters and the statements. One statement is one call, so that a mutation
has one place.
"""

from __future__ import annotations

# name: (parameters, statements); dims are the names in quotes
PROGRAMS: dict[str, tuple[str, str]] = {
    # no symbolic dim
    "fixed_layer": (
        'x: R.Tensor((5, 6), "float32"), w: R.Tensor((6, 6), "float32"), '
        'b: R.Tensor((6,), "float32")',
        "h = R.matmul(x, w); s = R.add(h, b); y = R.nn.silu(s); z = R.subtract(y, x)",
    ),
    "fixed_pad": (
        'x: R.Tensor((4, 9), "float32")',
        "p = R.nn.pad(x, (0, 0, 2, 2)); a = R.strided_slice(p, axes=[1], begin=[2], end=[11]); "
        "y = R.cumsum(a, axis=1); z = R.maximum(y, x)",
    ),
    "fixed_integers": (
        'i: R.Tensor((7, 5), "int32"), j: R.Tensor((7, 5), "int32")',
        'a = R.multiply(i, j); b = R.subtract(a, i); c = R.astype(b, "int8"); '
        'd = R.astype(c, "int32"); y = R.maximum(d, j)',
    ),
    "fixed_conv": (
        'x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")',
        "c = R.nn.conv2d(x, w, padding=(1, 1)); r = R.nn.relu(c); "
        "m = R.nn.max_pool2d(r, (2, 2), strides=(2, 2)); y = R.sum(m, axis=[2], keepdims=True)",
    ),
    "fixed_half": (
        'x: R.Tensor((6, 6), "float32")',
        'h = R.astype(x, "float16"); s = R.astype(h, "float32"); t = R.permute_dims(s, [1, 0]); '
        "y = R.subtract(t, x)",
    ),
    "fixed_reshape": (
        'x: R.Tensor((4, 6), "float32")',
        "a = R.reshape(x, (2, 2, 6)); f = R.flip(a, axis=1); s = R.nn.softmax(f, axis=2); "
        "y = R.reshape(s, (6, 4))",
    ),
    # one dim
    "norm": (
        'x: R.Tensor(("n", 8), "float32"), g: R.Tensor((8,), "float32")',
        "m = R.mean(x, axis=[1], keepdims=True); c = R.subtract(x, m); q = R.multiply(c, c); "
        "v = R.mean(q, axis=[1], keepdims=True); e = R.add(v, R.const(1e-5)); s = R.rsqrt(e); "
        "u = R.multiply(c, s); y = R.multiply(u, g)",
    ),
    "vector": (
        'x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")',
        "d = R.divide(x, y); a = R.abs(d); s = R.sqrt(a); z = R.where(R.greater(x, y), s, y)",
    ),
    "lookup": (
        'x: R.Tensor((11, 6), "float32"), i: R.Tensor(("n",), "int64")',
        "t = R.take(x, i, axis=0); e = R.tanh(t); y = R.flip(e, axis=1)",
    ),
    "halves": (
        'x: R.Tensor(("n", 4), "float32")',
        'r = R.reshape(x, (n, 2, 2)); h = R.astype(r, "bfloat16"); w = R.astype(h, "float32"); '
        "y = R.sum(w, axis=[1])",
    ),
    "multiple_of_8": (
        'x: R.Tensor(("n",), "float32")',
        'R.require("n % 8 == 0"); r = R.reshape(x, (n // 8, 8)); s = R.sum(r, axis=[1]); '
        "y = R.nn.gelu(s)",
    ),
    "bytes": (
        'i: R.Tensor(("n", 3), "int8"), j: R.Tensor(("n", 3), "int8")',
        'a = R.add(i, j); w = R.astype(a, "int32"); b = R.abs(w); y = R.floor_divide(b, '
        'R.const(3, "int32"))',
    ),
    "finite": (
        'x: R.Tensor(("n", 5), "float32")',
        "b = R.isfinite(x); a = R.where(b, x, R.const(0.0)); y = R.clip(a, -100.0, 100.0)",
    ),
    "rounding": (
        'x: R.Tensor(("n", 5), "float32")',
        'm = R.multiply(x, R.const(4.0)); r = R.round(m); i = R.astype(r, "int32"); '
        'f = R.astype(i, "float32"); y = R.divide(f, R.const(4.0))',
    ),
    "any_rank": (
        "x: R.Tensor(ndim=2)",
        'c = R.match_cast(x, R.Tensor((n, 4), "float32")); e = R.exp(c); '
        "y = R.max(e, axis=[1], keepdims=True)",
    ),
    # two dims
    "softmax": (
        'x: R.Tensor(("n", "m"), "float32")',
        "k = R.max(x, axis=[1], keepdims=True); s = R.subtract(x, k); e = R.exp(s); "
        "t = R.sum(e, axis=[1], keepdims=True); y = R.divide(e, t)",
    ),
    "outer": (
        'x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")',
        "a = R.expand_dims(x, axis=[1]); p = R.multiply(a, y); t = R.permute_dims(p, [1, 0]); "
        "z = R.subtract(t, x)",
    ),
    "square_cast": (
        'x: R.Tensor(("n", "m"), "float32")',
        'c = R.match_cast(x, R.Tensor((n, n), "float32")); t = R.permute_dims(c, [1, 0]); '
        "y = R.subtract(t, c)",
    ),
    "ordered": (
        'x: R.Tensor(("n", "m"), "float32")',
        'R.require("n <= m"); s = R.cumsum(x, axis=1); y = R.flip(s, axis=0)',
    ),
    "joined": (
        'x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32")',
        "c = R.concat((x, y), axis=0); r = R.roll(c, shift=[1], axis=[1]); z = R.nn.silu(r)",
    ),
    "masked": (
        'x: R.Tensor(("n", "m"), "float32"), k: R.Tensor(("n", "m"), "bool")',
        "a = R.where(k, x, R.const(-1e9)); y = R.nn.softmax(a, axis=-1)",
    ),
    "shorts": (
        'i: R.Tensor(("n", "m"), "int16")',
        's = R.sum(i, axis=[1]); p = R.multiply(i, i); w = R.astype(p, "int64"); '
        't = R.permute_dims(w, [1, 0]); y = R.add(t, R.astype(s, "int64"))',
    ),
    "double": (
        'x: R.Tensor(("n", "m"), "float64")',
        'h = R.astype(x, "float32"); d = R.astype(h, "float64"); y = R.floor(d); '
        "z = R.subtract(x, y)",
    ),
    "extremes": (
        'x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")',
        "a = R.minimum(x, y); b = R.isnan(a); c = R.where(b, x, a); z = R.sign(c)",
    ),
    "sliced": (
        'x: R.Tensor(("n", "m"), "float32")',
        "p = R.nn.pad(x, (1, 1, 0, 0)); a = R.strided_slice(p, axes=[0], begin=[1], end=[3]); "
        "y = R.exp(a)",
    ),
    # three dims
    "batched": (
        'x: R.Tensor(("b", "n", 4), "float32"), w: R.Tensor((4, "m"), "float32")',
        "h = R.matmul(x, w); r = R.nn.relu(h); y = R.mean(r, axis=[1])",
    ),
    "chain": (
        'x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("k", "m"), "float32")',
        "p = R.matmul(x, y); q = R.permute_dims(p, [1, 0]); z = R.nn.leakyrelu(q)",
    ),
    "rows": (
        'x: R.Tensor(("v", "d"), "float32"), i: R.Tensor(("s",), "int64")',
        "t = R.take(x, i, axis=0); y = R.cumsum(t, axis=0); z = R.power(R.abs(y), t)",
    ),
    "merged": (
        'x: R.Tensor(("b", "n", "m"), "float32")',
        "r = R.reshape(x, (b * n, m)); s = R.nn.log_softmax(r, axis=1); "
        "y = R.reshape(s, (b, n, m)); z = R.flip(y, axis=1)",
    ),
    "sorted": (
        'x: R.Tensor(("b", "n", "m"), "float32")',
        "s = R.sort(x, axis=1); a = R.strided_slice(s, axes=[2], begin=[0], end=[1]); "
        "y = R.multiply(x, a)",
    ),
    "modulo": (
        'i: R.Tensor(("b", "n", "m"), "int32")',
        'a = R.floor_mod(i, R.const(5, "int32")); b = R.subtract(a, i); '
        "y = R.max(b, axis=[2], keepdims=True)",
    ),
    "geometric": (
        'x: R.Tensor(("b", "n", "m"), "float32")',
        "a = R.sigmoid(x); l = R.log(a); s = R.sum(l, axis=[2]); y = R.exp(s)",
    ),
    # four dims
    "attention": (
        'q: R.Tensor(("b", "h", "s", "d"), "float32"), '
        'k: R.Tensor(("b", "h", "s", "d"), "float32")',
        "t = R.permute_dims(k, [0, 1, 3, 2]); p = R.matmul(q, t); a = R.nn.softmax(p, axis=-1); "
        "y = R.matmul(a, q)",
    ),
    "image": (
        'x: R.Tensor(("b", "c", "h", "w"), "float32")',
        "p = R.permute_dims(x, [0, 2, 3, 1]); m = R.mean(p, axis=[1, 2]); y = R.nn.silu(m)",
    ),
    "heads": (
        'x: R.Tensor(("b", "s", "h", "d"), "float32")',
        "r = R.reshape(x, (b, s, h * d)); e = R.tanh(r); y = R.sum(e, axis=[1])",
    ),
    "pairs": (
        'x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("c", "d"), "float32")',
        "u = R.sum(x, axis=[1]); v = R.max(y, axis=[0]); w = R.expand_dims(u, axis=[1]); "
        "z = R.subtract(w, v)",
    ),
    "four_integers": (
        'i: R.Tensor(("a", "b", "c", "d"), "int32")',
        'n = R.negative(i); p = R.multiply(n, i); y = R.astype(p, "int16")',
    ),
    "four_required": (
        'x: R.Tensor(("a", "b", "c", "d"), "float32")',
        'R.require("a < b"); f = R.flip(x, axis=2); y = R.nn.softmax(f, axis=1)',
    ),
    "four_tables": (
        'x: R.Tensor(("a", "b", "c", "d"), "float32"), i: R.Tensor(("c", 2), "int32")',
        "t = R.take(x, i, axis=1); e = R.exp(t); y = R.mean(e, axis=[0])",
    ),
    "four_halves": (
        'x: R.Tensor(("a", "b", "c", "d"), "float32")',
        'h = R.astype(x, "float16"); s = R.add(h, h); f = R.astype(s, "float32"); '
        "y = R.maximum(f, x)",
    ),
}
