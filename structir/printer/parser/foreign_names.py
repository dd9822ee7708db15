"""Names that NumPy, PyTorch and JAX give to ops, for hints of unknown ops: the call to write.

Each name has its parameters and the expression to write. Parameters without an argument and with
the default None are left out of the calls in that expression.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from functools import cache

from structir.printer.parser.foreign_arguments import ADJUSTMENTS, Arguments, InfoOf

ALIASES = {  # other names of parameters
    **{"dim": ("axis",), "dims": ("axis", "axes", "sizes"), "keepdim": ("keepdims",)},
    **{"permutation": ("axes",), "shape": ("sizes",), "size": ("sizes",), "p": ("ord",)},
    **{name: ("x", "tensors") for name in ("input", "a", "x1", "arr", "array", "operand")},
    **{name: ("y",) for name in ("other", "b", "x2", "exponent", "mat2", "tensor2")},
    **{"arrays": ("tensors",), "A": ("x",), "self": ("x",), "pred": ("condition",)},
}
FOREIGN_NAMES = {
    "all": "x, axis=None, keepdims=None: R.min(x, axis=axis, keepdims=keepdims)",
    "amax": "x, axis=None, keepdims=None: R.max(x, axis=axis, keepdims=keepdims)",
    "amin": "x, axis=None, keepdims=None: R.min(x, axis=axis, keepdims=keepdims)",
    "any": "x, axis=None, keepdims=None: R.max(x, axis=axis, keepdims=keepdims)",
    "argwhere": "x: R.permute_dims(R.nonzero(x))",
    "astensor": "x, dtype=None: R.const(x, dtype)",
    "bmm": "x, y: R.matmul(x, y)",
    "broadcast": "x, *sizes: R.broadcast_to(x, sizes)",
    "cast": "x, dtype: R.astype(x, dtype)",
    "cat": "tensors, axis=0: R.concat(tensors, axis=axis)",
    "chunk": "x, chunks, axis=None: R.split(x, chunks, axis=axis)",
    "clone": "x: x",
    "concatenate": "tensors, axis=0: R.concat(tensors, axis=axis)",
    "contiguous": "x: x",
    "convert": "x, dtype: R.astype(x, dtype)",
    "cumulative_prod": "x, axis=None: R.cumprod(x, axis=axis)",
    "cumulative_sum": "x, axis=None: R.cumsum(x, axis=axis)",
    "detach": "x: R.grad.no_grad(x)",
    "diagonal": "x: R.einsum((x,), subscripts)",
    "div": "x, y: R.divide(x, y)",
    "dot": "x, y: R.matmul(x, y)",
    "eq": "x, y: R.equal(x, y)",
    "expand": "x, *sizes: R.broadcast_to(x, sizes)",
    "fabs": "x: R.abs(x)",
    "float": 'x: R.astype(x, "float32")',
    "fmod": "x, y: R.mod(x, y)",
    "ge": "x, y: R.greater_equal(x, y)",
    "gt": "x, y: R.greater(x, y)",
    "hypot": "x, y: R.sqrt(R.square(x) + R.square(y))",
    "identity": 'n, dtype="float32": R.eye(n, dtype=dtype)',
    "index_select": "x, axis, index: R.take(x, index, axis=axis)",
    "int": 'x: R.astype(x, "int64")',
    "inner": "x, y: R.einsum((x, y), subscripts)",
    "iota": 'n, dtype="int64": R.arange(n, dtype=dtype)',
    "isclose": "x, y, rtol=1e-05, atol=1e-08: R.abs(x - y) <= atol + rtol * R.abs(y)",
    "le": "x, y: R.less_equal(x, y)",
    "linalg.inv": "x: R.linalg.solve(x, R.eye_like(x))",
    "linalg.norm": "x, ord=None, axis=None, keepdims=None: "
    "R.sqrt(R.sum(R.square(x), axis=axis, keepdims=keepdims))",
    "linspace": 'start, stop, num: start + R.arange(num, dtype="float32") * step',
    "logaddexp": "x, y: R.log_add_exp(x, y)",
    "logsumexp": "x, axis=None, keepdims=None: "
    "R.log(R.sum(R.exp(x - R.max(x, axis=axis, keepdims=True)), axis=axis, keepdims=keepdims))"
    " + R.max(x, axis=axis, keepdims=keepdims)",
    "lt": "x, y: R.less(x, y)",
    "masked_fill": "x, mask, value: R.where(mask, value, x)",
    "mm": "x, y: R.matmul(x, y)",
    "moveaxis": "x, source, destination: R.permute_dims(x, axes=axes)",
    "mul": "x, y: R.multiply(x, y)",
    "ne": "x, y: R.not_equal(x, y)",
    "neg": "x: R.negative(x)",
    "nn.embedding": "x, weight: R.take(weight, x, axis=0)",
    "nn.linear": "x, weight, bias=None: R.linear(x, weight, bias)",
    "norm": "x, ord=None, axis=None, keepdims=None: "
    "R.sqrt(R.sum(R.square(x), axis=axis, keepdims=keepdims))",
    "numel": "x: R.size(x)",
    "pow": "x, y: R.power(x, y)",
    "ravel": "x: R.reshape(x, (-1,))",
    "reciprocal": "x: 1.0 / x",
    "remainder": "x, y: R.floor_mod(x, y)",
    "select": "condition, x, y: R.where(condition, x, y)",
    "stop_gradient": "x: R.grad.no_grad(x)",
    "sub": "x, y: R.subtract(x, y)",
    "swapaxes": "x, axis1, axis2: R.permute_dims(x, axes=axes)",
    "tensordot": "x, y, axes=2: R.einsum((x, y), subscripts)",
    "trace": "x: R.einsum((x,), subscripts)",
    "transpose": "x, axes=None, other=None: R.permute_dims(x, axes=axes)",
    "unsqueeze": "x, axis: R.expand_dims(x, axis)",
    "var": "x, axis=None, ddof=0, keepdims=None, dim=None, keepdim=None, correction=None, "
    "unbiased=None: "
    "R.variance(x, axis=axis, keepdims=keepdims)",
    "view": "x, *sizes: R.reshape(x, sizes)",
}


def foreign_call(
    name: str, call: ast.Call, info_of: InfoOf, is_valid: Callable[[str], bool]
) -> str | None:
    """Returns what to write in place of a call of another library's op.

    Arguments that the op of this language has no place for give the general form: the names of
    its parameters.
    """
    if name not in FOREIGN_NAMES:
        return None
    template = _template(name)
    arguments = _bind(template.args, call)
    if arguments is not None and name in ADJUSTMENTS:
        arguments = ADJUSTMENTS[name](arguments, info_of)
    if arguments is not None:
        edit = _substitute(template, arguments)
        if is_valid(edit):
            return edit
    return _source(template.body)


@cache
def _template(name: str) -> ast.Lambda:
    template = ast.parse(f"lambda {FOREIGN_NAMES[name]}", mode="eval").body
    assert isinstance(template, ast.Lambda)
    return template


def _bind(parameters: ast.arguments, call: ast.Call) -> Arguments | None:
    """Returns the argument of each parameter; None if the call does not fit the parameters."""
    names = [parameter.arg for parameter in parameters.args]
    defaults = dict(zip(reversed(names), reversed(parameters.defaults), strict=False))
    bound: Arguments = dict(zip(names, call.args, strict=False))
    rest, variadic = call.args[len(names) :], parameters.vararg
    if any(isinstance(item, ast.Starred) for item in call.args) or (rest and variadic is None):
        return None
    if rest and variadic is not None:
        bound[variadic.arg] = rest[0] if len(rest) == 1 else ast.Tuple(rest, ast.Load())
    allowed = names if variadic is None else [*names, variadic.arg]
    for keyword in call.keywords:
        options = (keyword.arg or "", *ALIASES.get(keyword.arg or "", ()))
        parameter = next((option for option in options if option in allowed), None)
        if parameter is None or parameter in bound:
            return None
        bound[parameter] = keyword.value
    bound = {**defaults, **bound}
    return bound if {*names} <= {*bound} else None


class _ArgumentSubstitution(ast.NodeTransformer):
    """Replaces the parameters of a template by arguments; drops those that are None."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def visit_Name(self, node: ast.Name) -> ast.expr:
        # A copy: `ast.unparse` puts parentheses around a node by where it saw it last.
        return copy.deepcopy(self.arguments.get(node.id, node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.keywords = [k for k in node.keywords if not self._is_absent(k.value)]
        node.args = [value for value in node.args if not self._is_absent(value)]
        self.generic_visit(node)
        return node

    def _is_absent(self, node: ast.expr) -> bool:
        value = self.arguments.get(node.id) if isinstance(node, ast.Name) else node
        return isinstance(value, ast.Constant) and value.value is None


def _substitute(template: ast.Lambda, arguments: Arguments) -> str:
    body = copy.deepcopy(template.body)
    return _source(_ArgumentSubstitution(arguments).visit(body))


def _source(node: ast.expr) -> str:
    """Returns the source of an expression, with double quotes around its strings."""
    source = ast.unparse(node)
    constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    plain = all(repr(s) == f"'{s}'" and '"' not in s for s in constants if isinstance(s, str))
    return source.replace("'", '"') if plain else source
