"""Names that NumPy and PyTorch give to ops, for hints of unknown ops."""

from __future__ import annotations

FOREIGN_NAMES = {
    "all": "R.min(x)",  # of bools
    "amax": "R.max(x)",
    "amin": "R.min(x)",
    "any": "R.max(x)",
    "bmm": "R.matmul(x, y)",
    "cat": "R.concat((x, y), axis=0)",
    "div": "R.divide(x, y)",
    "dot": "R.matmul(x, y)",
    "fmod": "R.mod(x, y)",
    "masked_fill": "R.where(mask, value, x)",
    "mm": "R.matmul(x, y)",
    "mul": "R.multiply(x, y)",
    "pow": "R.power(x, y)",
    "remainder": "R.floor_mod(x, y)",
    "sub": "R.subtract(x, y)",
    "swapaxes": "R.permute_dims(x, axes=[1, 0])",
    "transpose": "R.permute_dims(x)",
    "unsqueeze": "R.expand_dims(x, axis=0)",
    "view": "R.reshape(x, (-1,))",
}
