"""A second set of programs, written after the inputs of `VerifyResults` were chosen.

The first set, `wrong_programs.py`, may have influenced that choice; this one measures what the
defaults catch elsewhere. Its programs have other ops. The format is the same.
"""

from __future__ import annotations

# name: (parameters, statements); dims are the names in quotes
HELD_OUT: dict[str, tuple[str, str]] = {
    # no symbolic dim
    "h_gate": (
        'x: R.Tensor((3, 8), "float32"), w: R.Tensor((8, 4), "float32"), '
        'v: R.Tensor((8, 4), "float32")',
        "a = R.matmul(x, w); b = R.matmul(x, v); s = R.sigmoid(a); y = R.multiply(s, b)",
    ),
    "h_conv1d": (
        'x: R.Tensor((2, 3, 9), "float32"), w: R.Tensor((5, 3, 3), "float32")',
        "c = R.nn.conv1d(x, w, strides=(2,)); t = R.tanh(c); y = R.max(t, axis=[2])",
    ),
    "h_pool": (
        'x: R.Tensor((1, 2, 6, 6), "float32")',
        "p = R.nn.avg_pool2d(x, (2, 2), strides=(2, 2)); e = R.exp(p); y = R.sum(e, axis=[1])",
    ),
    "h_words": (
        'i: R.Tensor((6, 4), "int32"), j: R.Tensor((6, 4), "int32")',
        "a = R.bitwise_and(i, j); b = R.bitwise_xor(a, i); y = R.minimum(b, j)",
    ),
    "h_stacked": (
        'x: R.Tensor((4, 5), "float32"), y: R.Tensor((4, 5), "float32")',
        "s = R.stack((x, y), axis=0); m = R.mean(s, axis=[0]); d = R.subtract(m, y); z = R.abs(d)",
    ),
    # one dim
    "h_rms": (
        'x: R.Tensor(("n", 6), "float32"), g: R.Tensor((6,), "float32")',
        "q = R.square(x); m = R.mean(q, axis=[1], keepdims=True); e = R.add(m, R.const(1e-6)); "
        "r = R.sqrt(e); u = R.divide(x, r); y = R.multiply(u, g)",
    ),
    "h_one_hot": (
        'i: R.Tensor(("n",), "int64"), w: R.Tensor((7, 3), "float32")',
        "t = R.take(w, i, axis=0); s = R.cumsum(t, axis=0); y = R.round(s)",
    ),
    "h_repeat": (
        'x: R.Tensor(("n", 3), "float32")',
        "r = R.repeat(x, 2, axis=1); f = R.flip(r, axis=1); y = R.erf(f)",
    ),
    "h_tile": (
        'x: R.Tensor(("n", 3), "float32")',
        "t = R.tile(x, (2, 1)); c = R.cos(t); y = R.cumsum(c, axis=1)",
    ),
    "h_losses": (
        'x: R.Tensor(("n", 5), "float32"), t: R.Tensor(("n", 5), "float32")',
        "l = R.nn.log_softmax(x, axis=1); p = R.multiply(l, t); s = R.sum(p, axis=[1]); "
        "y = R.negative(s)",
    ),
    "h_quantized": (
        'x: R.Tensor(("n", 4), "float32")',
        "d = R.divide(x, R.const(0.05)); r = R.round(d); c = R.clip(r, -128.0, 127.0); "
        'q = R.astype(c, "int8"); f = R.astype(q, "float32"); y = R.multiply(f, R.const(0.05))',
    ),
    "h_bytes": (
        'i: R.Tensor(("n", 3), "uint8"), j: R.Tensor(("n", 3), "uint8")',
        's = R.subtract(i, j); w = R.astype(s, "int32"); y = R.multiply(w, w)',
    ),
    "h_flags": (
        'x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")',
        "a = R.less(x, y); b = R.greater_equal(x, R.const(0.0)); c = R.logical_and(a, b); "
        'z = R.astype(c, "int32")',
    ),
    "h_odd": (
        'x: R.Tensor(("n",), "float32")',
        'R.require("n % 2 == 1"); f = R.flip(x, axis=0); a = R.add(f, x); y = R.exp(a)',
    ),
    "h_index": (
        'x: R.Tensor(("n", 4), "float32")',
        'a = R.argmax(x, axis=1); f = R.astype(a, "float32"); y = R.sqrt(f)',
    ),
    # two dims
    "h_scores": (
        'x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32")',
        "t = R.permute_dims(y, [1, 0]); p = R.matmul(x, t); s = R.multiply(p, R.const(0.5)); "
        "z = R.nn.softmax(s, axis=1)",
    ),
    "h_lower": (
        'x: R.Tensor(("n", "m"), "float32")',
        "a = R.tril(x); s = R.sum(a, axis=[0]); y = R.rsqrt(R.add(R.square(s), R.const(1.0)))",
    ),
    "h_counts": (
        'i: R.Tensor(("n", "m"), "int64")',
        'a = R.floor_mod(i, R.const(7, "int64")); s = R.cumsum(a, axis=1); '
        'y = R.floor_divide(s, R.const(2, "int64"))',
    ),
    "h_half": (
        'x: R.Tensor(("n", "m"), "float16"), y: R.Tensor(("n", "m"), "float16")',
        'p = R.multiply(x, y); w = R.astype(p, "float32"); s = R.sum(w, axis=[1]); '
        'z = R.astype(s, "float16")',
    ),
    "h_swish": (
        'x: R.Tensor(("n", "m"), "float32")',
        "g = R.nn.gelu(x); s = R.nn.silu(g); y = R.subtract(s, x)",
    ),
    "h_mask": (
        'x: R.Tensor(("n", "m"), "float32"), k: R.Tensor(("m",), "bool")',
        "a = R.where(k, x, R.const(0.0)); s = R.sum(a, axis=[1], keepdims=True); "
        "y = R.subtract(x, s)",
    ),
    "h_norms": (
        'x: R.Tensor(("n", "m"), "float64")',
        "q = R.multiply(x, x); s = R.sum(q, axis=[1]); r = R.sqrt(s); y = R.log(r)",
    ),
    "h_bigger": (
        'x: R.Tensor(("n", "m"), "float32")',
        'R.require("m > n"); t = R.permute_dims(x, [1, 0]); y = R.cumsum(t, axis=1)',
    ),
    # three dims
    "h_project": (
        'x: R.Tensor(("b", "s", 6), "float32"), w: R.Tensor((6, "e"), "float32"), '
        'c: R.Tensor(("e",), "float32")',
        "p = R.matmul(x, w); a = R.add(p, c); y = R.tanh(a)",
    ),
    "h_gram": (
        'x: R.Tensor(("b", "n", "d"), "float32")',
        "t = R.permute_dims(x, [0, 2, 1]); g = R.matmul(x, t); y = R.max(g, axis=[2])",
    ),
    "h_split": (
        'x: R.Tensor(("b", "n", "d"), "float32")',
        "a = R.strided_slice(x, axes=[1], begin=[0], end=[1]); s = R.add(x, a); "
        "m = R.min(s, axis=[0]); y = R.sin(m)",
    ),
    "h_joined": (
        'x: R.Tensor(("a", "d"), "float32"), y: R.Tensor(("b", "d"), "float32")',
        "c = R.concat((x, y), axis=0); s = R.sort(c, axis=0); z = R.exp(s)",
    ),
    "h_gather": (
        'x: R.Tensor(("v", "d"), "float32"), i: R.Tensor(("b", 2), "int64")',
        "t = R.take(x, i, axis=0); m = R.mean(t, axis=[1]); y = R.nn.relu(m)",
    ),
    "h_folded": (
        'x: R.Tensor(("b", "n", "d"), "float32")',
        "r = R.reshape(x, (b, n * d)); s = R.nn.softmax(r, axis=1); y = R.reshape(s, (b, n, d))",
    ),
    "h_ints": (
        'i: R.Tensor(("a", "b", "c"), "int16")',
        'w = R.astype(i, "int32"); p = R.multiply(w, w); s = R.sum(p, axis=[1]); '
        'y = R.astype(s, "int16")',
    ),
    "h_moved": (
        'x: R.Tensor(("a", "b", "c"), "float32")',
        "p = R.permute_dims(x, [2, 0, 1]); f = R.roll(p, shift=[1], axis=[0]); "
        "y = R.multiply(f, p)",
    ),
    # four dims
    "h_attend": (
        'q: R.Tensor(("b", "h", "s", 4), "float32"), k: R.Tensor(("b", "h", "t", 4), "float32")',
        "t_ = R.permute_dims(k, [0, 1, 3, 2]); p = R.matmul(q, t_); "
        "m = R.max(p, axis=[3], keepdims=True); d = R.subtract(p, m); y = R.exp(d)",
    ),
    "h_channels": (
        'x: R.Tensor(("b", "c", "h", "w"), "float32"), g: R.Tensor(("c",), "float32")',
        "p = R.permute_dims(x, [0, 2, 3, 1]); a = R.multiply(p, g); "
        "y = R.permute_dims(a, [0, 3, 1, 2])",
    ),
    "h_merge": (
        'x: R.Tensor(("b", "s", "h", "d"), "float32")',
        "p = R.permute_dims(x, [0, 2, 1, 3]); r = R.reshape(p, (b * h, s, d)); "
        "y = R.sum(r, axis=[1])",
    ),
    "h_grid": (
        'x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("c", "d"), "float32")',
        "u = R.mean(x, axis=[0]); v = R.sum(y, axis=[1]); w = R.expand_dims(v, axis=[1]); "
        "z = R.add(w, u)",
    ),
    "h_levels": (
        'x: R.Tensor(("a", "b", "c", "d"), "float32")',
        "f = R.floor(x); r = R.subtract(x, f); y = R.prod(r, axis=[3])",
    ),
    "h_four_bytes": (
        'i: R.Tensor(("a", "b", "c", "d"), "int8"), j: R.Tensor(("a", "b", "c", "d"), "int8")',
        'm = R.multiply(i, j); a = R.abs(m); y = R.astype(a, "int32")',
    ),
    "h_four_checked": (
        'x: R.Tensor(("a", "b", "c", "d"), "float32")',
        'R.require("c == 2 * d"); s = R.sum(x, axis=[2]); y = R.nn.relu(s)',
    ),
    "h_four_where": (
        'x: R.Tensor(("a", "b", "c", "d"), "float32"), y: R.Tensor(("c", "d"), "float32")',
        "k = R.less(x, y); a = R.where(k, y, x); z = R.cumsum(a, axis=3)",
    ),
    "h_four_any": (
        'x: R.Tensor(("a", "b", "c", "d"), "float32")',
        "n_ = R.isnan(x); a = R.where(n_, R.const(1.0), x); y = R.mean(a, axis=[0, 1])",
    ),
}
