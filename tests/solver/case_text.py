"""A case as the text of a StructIR program, where its ops and shapes have a text."""

from collections.abc import Callable
from typing import Any

Case = dict[str, Any]
Attrs = dict[str, Any]


class NoText(Exception):
    """The case says something that a program in text does not."""


def call(name: str, *keywords: str, **renamed: str) -> Callable[[list[str], Attrs], str]:
    """A call of an op; these attributes go along, under these names."""

    def text(operands: list[str], attrs: Attrs) -> str:
        names = {**dict(zip(keywords, keywords, strict=True)), **renamed}
        given = [f"{mine}={attrs[own]!r}" for own, mine in names.items() if own in attrs]
        return f"R.{name}({', '.join([*operands, *given])})"

    return text


def binary(name: str) -> Callable[[list[str], Attrs], str]:
    def text(operands: list[str], attrs: Attrs) -> str:
        match attrs.get("broadcast", "multi"):
            case "multi":
                return f"R.{name}({', '.join(operands)})"
            case "none":  # equal rows, whatever is computed
                return f"R.ewise_fma({operands[0]}, {operands[1]}, {operands[1]})"
        raise NoText("broadcast of one side only")

    return text


def conv(name: str) -> Callable[[list[str], Attrs], str]:
    plain = call(name, stride="strides", pad="padding", dilation="dilation", groups="groups")

    def text(operands: list[str], attrs: Attrs) -> str:
        if len(operands) == 3:
            raise NoText("a convolution with a bias")
        return plain(operands, attrs)

    return text


def listed(name: str) -> Callable[[list[str], Attrs], str]:
    return lambda operands, attrs: f"R.{name}(({', '.join(operands)}), axis={attrs['axis']})"


def pool(operands: list[str], attrs: Attrs) -> str:
    stride, pad, size = attrs.get("stride", 1), attrs.get("pad", 0), attrs["kernel"]
    sizes = f"pool_size={size}, strides={stride}, padding={pad}"
    return f"R.nn.max_pool2d({operands[0]}, {sizes})"


def reduce(operands: list[str], attrs: Attrs) -> str:
    axis = attrs.get("axis")
    axes = [axis] if isinstance(axis, int) else axis
    return f"R.sum({operands[0]}, axis={axes}, keepdims={bool(attrs.get('keepdims'))})"


def flatten(operands: list[str], attrs: Attrs) -> str:
    if attrs.get("start", 0):
        raise NoText("flatten from an axis on")
    return f"R.flatten({operands[0]})"


def pad(operands: list[str], attrs: Attrs) -> str:
    return f"R.nn.pad({operands[0]}, {[size for pair in attrs['width'] for size in pair]})"


def layer_norm(operands: list[str], attrs: Attrs) -> str:
    return f"R.nn.layer_norm({', '.join(operands)}, axes=[-1])"


def squeeze(operands: list[str], attrs: Attrs) -> str:
    return f"R.squeeze({operands[0]}, axis=[{attrs['axis']}])"


def repeat(operands: list[str], attrs: Attrs) -> str:
    return f"R.repeat({operands[0]}, {attrs['n']}, axis={attrs['axis']})"


TEXTS: dict[str, Callable[[list[str], Attrs], str]] = {
    "relu": call("nn.relu"),
    "neg": call("negative"),
    **{name: call(name) for name in ("exp", "sqrt", "tanh", "sigmoid", "linear")},
    **{name: binary(name) for name in ("add", "maximum", "minimum")},
    "sub": binary("subtract"),
    "mul": binary("multiply"),
    "div": binary("divide"),
    "conv1d": conv("nn.conv1d"),
    "conv2d": conv("nn.conv2d"),
    "pool2d": pool,
    "transpose": call("permute_dims", "axes"),
    "reduce": reduce,
    "softmax": call("nn.softmax", "axis"),
    "cumsum": call("cumsum", "axis"),
    "reverse": call("flip", "axis"),
    "concat": listed("concat"),
    "stack": listed("stack"),
    "reshape": call("reshape", "shape"),
    "flatten": flatten,
    "expand_dims": call("expand_dims", "axis"),
    "squeeze": squeeze,
    "broadcast_to": call("broadcast_to", "shape"),
    "pad": pad,
    "repeat": repeat,
    "layer_norm": layer_norm,
    "matmul": call("matmul"),
}


class _Shapes:
    """Partial shapes as struct infos; an unknown size is a variable of its own."""

    def __init__(self) -> None:
        self.count = 0
        self.names: dict[str, None] = {}  # those that stand as a size of their own

    def info(self, shape: list[Any] | None) -> str:
        if shape is None:
            return 'R.Tensor(dtype="float32")'
        sizes = [self.size(entry) for entry in shape]
        return f'R.Tensor(({"".join(s + ", " for s in sizes)}), "float32")'

    def size(self, entry: Any) -> str:
        match entry:
            case None:
                self.count += 1
                return self.size(f"unknown{self.count}")
            case int():
                return str(entry)
            case {"expr": text}:
                return f'"{text}"'
            case "*":
                raise NoText("ragged axes")
            case str():
                self.names[entry] = None
                return f'"{entry}"'
        raise NoText("rows and labels")


def text_of(case: Case) -> str:
    """The text of a case; raises NoText where it has none."""
    if case.get("facts") or case.get("funcs"):
        raise NoText("facts and functions")
    shapes = _Shapes()
    params = ", ".join([f"{p['name']}: {shapes.info(p['shape'])}" for p in case["params"]])
    known, shapes.names = shapes.names, {}
    lines = [line for op in case["ops"] for line in op_lines(case, op, shapes)]
    declared = [f"{name} = T.int64()" for name in shapes.names if name not in known]
    body = "\n    ".join([*declared, *lines, f"return {case['ret'][0]}"])
    return f"@R.function\ndef main({params}):\n    {body}\n"


def op_lines(case: Case, op: Case, shapes: _Shapes) -> list[str]:
    if op["op"] not in TEXTS:
        raise NoText(op["op"])
    value, results = TEXTS[op["op"]](op["in"], op["attrs"]), op["out"]
    lines = [f"{results[0]} = {value}"]
    if len(results) > 1:
        whole = "_".join(results)
        lines = [f"{whole} = {value}"]
        lines += [f"{name} = {whole}[{k}]" for k, name in enumerate(results)]
    for name in results:
        shape = case["annotations"].get(name)
        if shape is not None:
            lines.append(f"{name}_is = R.match_cast({name}, {shapes.info(shape)})")
    return lines
