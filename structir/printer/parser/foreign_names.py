"""Names that NumPy and PyTorch give to ops, for hints of unknown ops."""

from __future__ import annotations

FOREIGN_NAMES = {
    "all": "R.min(x)",  # of bools
    "amax": "R.max(x)",
    "amin": "R.min(x)",
    "any": "R.max(x)",
    "astensor": 'R.const([1, 2], "float32")',
    "bmm": "R.matmul(x, y)",
    "cat": "R.concat((x, y), axis=0)",
    "cast": 'R.astype(x, "float32")',
    "div": "R.divide(x, y)",
    "dot": "R.matmul(x, y)",
    "float": 'R.astype(x, "float32")',
    "fmod": "R.mod(x, y)",
    "int": 'R.astype(x, "int64")',
    "linalg.inv": "R.linalg.solve(x, y)",
    "masked_fill": "R.where(mask, value, x)",
    "mm": "R.matmul(x, y)",
    "mul": "R.multiply(x, y)",
    "nn.embedding": "R.take(weight, indices, axis=0)",
    "nn.linear": "R.linear(x, weight, bias)",
    "pow": "R.power(x, y)",
    "remainder": "R.floor_mod(x, y)",
    "size": "R.shape_of(x)",
    "sub": "R.subtract(x, y)",
    "swapaxes": "R.permute_dims(x, axes=[1, 0])",
    "transpose": "R.permute_dims(x)",
    "unsqueeze": "R.expand_dims(x, axis=0)",
    "view": "R.reshape(x, (-1,))",
}
