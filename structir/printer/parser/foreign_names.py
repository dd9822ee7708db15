"""Names that NumPy, PyTorch and JAX give to ops, for hints of unknown ops: the call to write.

In a call `{0}` and `{1}` are the operands, or `x` and `y`; `{rest}` are the other arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

OPERANDS = ("x", "y", "z")
KEYWORDS = {"dim": "axis", "keepdim": "keepdims", "dims": "axis"}  # of PyTorch

FOREIGN_NAMES = {
    "all": "R.min({0}{rest})",  # of bools
    "amax": "R.max({0}{rest})",
    "amin": "R.min({0}{rest})",
    "any": "R.max({0}{rest})",
    "argwhere": "R.permute_dims(R.nonzero({0}))",
    "astensor": 'R.const([1, 2], "float32")',
    "bmm": "R.matmul({0}, {1})",
    "broadcast": "R.broadcast_to({0}{rest})",
    "cast": 'R.astype({0}, "float32")',
    "cat": "R.concat({0}{rest})",
    "chunk": "R.split({0}{rest})",
    "clone": "{0}",
    "concatenate": "R.concat({0}{rest})",
    "contiguous": "{0}",
    "convert": 'R.astype({0}, "float32")',
    "cumulative_prod": "R.cumprod({0}{rest})",
    "cumulative_sum": "R.cumsum({0}{rest})",
    "detach": "R.grad.no_grad({0})",
    "diagonal": 'R.einsum(({0},), "ii->i")',
    "div": "R.divide({0}, {1})",
    "dot": "R.matmul({0}, {1})",
    "eq": "R.equal({0}, {1})",
    "expand": "R.broadcast_to({0}{rest})",
    "fabs": "R.abs({0})",
    "float": 'R.astype({0}, "float32")',
    "fmod": "R.mod({0}, {1})",
    "ge": "R.greater_equal({0}, {1})",
    "gt": "R.greater({0}, {1})",
    "hypot": "R.sqrt(R.square({0}) + R.square({1}))",
    "identity": 'R.eye({0}, dtype="float32")',
    "index_select": "R.take({0}, indices, axis=0)",
    "int": 'R.astype({0}, "int64")',
    "inner": 'R.einsum(({0}, {1}), "ij,kj->ik")',
    "iota": 'R.arange({0}, dtype="int64")',
    "isclose": "R.abs({0} - {1}) < 1e-05",
    "le": "R.less_equal({0}, {1})",
    "linalg.inv": "R.linalg.solve({0}, R.eye_like({0}))",
    "linalg.norm": "R.sqrt(R.sum(R.square({0}{rest})))",
    "linspace": 'R.arange(5, dtype="float32") / 4.0',
    "logaddexp": "R.log_add_exp({0}, {1})",
    "logsumexp": "R.log(R.sum(R.exp({0}){rest}))",
    "lt": "R.less({0}, {1})",
    "masked_fill": "R.where({1}, value, {0})",
    "mm": "R.matmul({0}, {1})",
    "moveaxis": "R.permute_dims({0}, axes=[1, 0])",
    "mul": "R.multiply({0}, {1})",
    "ne": "R.not_equal({0}, {1})",
    "neg": "R.negative({0})",
    "nn.embedding": "R.take(weight, indices, axis=0)",
    "nn.linear": "R.linear({0}, {1}{rest})",
    "norm": "R.sqrt(R.sum(R.square({0})))",
    "numel": "R.size({0})",
    "pow": "R.power({0}, {1})",
    "ravel": "R.reshape({0}, (-1,))",
    "reciprocal": "1.0 / {0}",
    "remainder": "R.floor_mod({0}, {1})",
    "select": "R.where({0}, {1}{rest})",
    "stop_gradient": "R.grad.no_grad({0})",
    "sub": "R.subtract({0}, {1})",
    "swapaxes": "R.permute_dims({0}, axes=[1, 0])",
    "tensordot": 'R.einsum(({0}, {1}), "ij,jk->ik")',
    "trace": 'R.einsum(({0},), "ii->")',
    "transpose": "R.permute_dims({0})",
    "unsqueeze": "R.expand_dims({0}{rest})",
    "var": "R.variance({0}{rest})",
    "view": "R.reshape({0}{rest})",
}


def foreign_call(name: str, call: ast.Call | None = None) -> str | None:
    """Returns what to write in place of a call of another library's op, with its arguments."""
    template = FOREIGN_NAMES.get(name)
    if template is None:
        return None
    values = [] if call is None else [ast.unparse(value) for value in call.args]
    keywords = [] if call is None else [(k.arg, ast.unparse(k.value)) for k in call.keywords]
    used = sum([f"{{{k}}}" in template for k in range(len(OPERANDS))])
    named = [f"{KEYWORDS.get(n, n)}={v}" if n else f"**{v}" for n, v in keywords]
    rest = "".join([f", {value}" for value in [*values[used:], *named]])
    return template.format(*_operands(values), rest=rest)


def _operands(values: Sequence[str]) -> list[str]:
    return [*values[: len(OPERANDS)], *OPERANDS[len(values) :]]
