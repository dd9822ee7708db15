"""The source of a case as a StructIR program. Values are named `v_x`, unlike any size."""

from collections.abc import Callable
from typing import Any

Case = dict[str, Any]
Attrs = dict[str, Any]
Operands = list[str]


class NoText(Exception):
    """The case contains something that no program expresses."""


def sig(text: str) -> Callable[[Operands, Attrs], str]:
    """Formats an opaque call with a size signature."""
    return lambda operands, attrs: f'R.sig("{text}")({", ".join(operands)})'


def call(name: str, *keywords: str, **renamed: str) -> Callable[[Operands, Attrs], str]:
    """Formats a call of an op with some of its attributes, under new names."""

    def text(operands: Operands, attrs: Attrs) -> str:
        names = {**dict(zip(keywords, keywords, strict=True)), **renamed}
        given = [f"{mine}={attrs[own]!r}" for own, mine in names.items() if own in attrs]
        return f"R.{name}({', '.join([*operands, *given])})"

    return text


def binary(name: str) -> Callable[[Operands, Attrs], str]:
    def text(operands: Operands, attrs: Attrs) -> str:
        match attrs.get("broadcast", "multi"):
            case "multi":
                return f"R.{name}({', '.join(operands)})"
            case "none":  # equal rows, whatever is computed
                return f"R.ewise_fma({operands[0]}, {operands[1]}, {operands[1]})"
        return sig("*s; ~s -> *s")(operands, attrs)

    return text


def matmul(operands: Operands, attrs: Attrs) -> str:
    """Formats the matrix product of the cases, whose operands have at least two axes."""
    row = "*s" if attrs.get("batch") == "equal" else "~s"
    pair = f"{operands[0]}, {operands[1]}"
    return f'R.einsum(({pair}), "{row} m k; {row} k n -> {row} m n")'


def gemm(operands: Operands, attrs: Attrs) -> str:
    a = "k m" if attrs.get("transA") else "m k"
    b = "n k" if attrs.get("transB") else "k n"
    return f'R.einsum(({operands[0]}, {operands[1]}), "{a}; {b} -> m n")'


def conv(name: str) -> Callable[[Operands, Attrs], str]:
    plain = call(name, stride="strides", pad="padding", dilation="dilation", groups="groups")
    return lambda operands, attrs: plain(operands[:2], attrs)


def listed(name: str) -> Callable[[Operands, Attrs], str]:
    return lambda operands, attrs: f"R.{name}(({', '.join(operands)}), axis={attrs['axis']})"


def pool(operands: Operands, attrs: Attrs) -> str:
    stride, pad, size = attrs.get("stride", 1), attrs.get("pad", 0), attrs["kernel"]
    sizes = f"pool_size={size}, strides={stride}, padding={pad}"
    return f"R.nn.max_pool2d({operands[0]}, {sizes})"


def reduce(operands: Operands, attrs: Attrs) -> str:
    axis = attrs.get("axis")
    axes = [axis] if isinstance(axis, int) else axis
    return f"R.sum({operands[0]}, axis={axes}, keepdims={bool(attrs.get('keepdims'))})"


def flatten(operands: Operands, attrs: Attrs) -> str:
    start = attrs.get("start", 0)
    if not start:
        return f"R.flatten({operands[0]})"
    kept = " ".join(f"p{k}" for k in range(start))
    return sig(f"{kept} *t -> {kept} q where elements(*t) == elements(q)")(operands, attrs)


def pad(operands: Operands, attrs: Attrs) -> str:
    return f"R.nn.pad({operands[0]}, {[size for pair in attrs['width'] for size in pair]})"


def layer_norm(operands: Operands, attrs: Attrs) -> str:
    return f"R.nn.layer_norm({', '.join(operands)}, axes=[-1])"


def squeeze(operands: Operands, attrs: Attrs) -> str:
    return f"R.squeeze({operands[0]}, axis=[{attrs['axis']}])"


def repeat(operands: Operands, attrs: Attrs) -> str:
    return f"R.repeat({operands[0]}, {attrs['n']}, axis={attrs['axis']})"


def around(axis: int) -> tuple[str, str]:
    """Returns the axes before and after one that is counted from either end."""
    if axis >= 0:
        return " ".join(f"p{k}" for k in range(axis)), "*t"
    return "*p", " ".join(f"t{k}" for k in range(-axis - 1))


def split(operands: Operands, attrs: Attrs) -> str:
    sections, axis = attrs["sections"], attrs["axis"]
    equal = isinstance(sections, int)
    before, after = around(axis)
    sizes = ["q"] * sections if equal else sections
    parts = "; ".join(f"{before} {size} {after}" for size in sizes)
    total = f"{sections}*q" if equal else sum(sections)
    return sig(f"{before} {total} {after} -> {parts}")(operands, attrs)


def slices(operands: Operands, attrs: Attrs) -> str:
    before, after = around(attrs["axis"])
    kept = len(range(attrs["begin"], attrs["end"], attrs.get("step", 1)))
    text = f"{before} a {after} -> {before} {kept} {after} where a >= {attrs['end']}"
    return sig(text)(operands, attrs)


def einsum(operands: Operands, attrs: Attrs) -> str:
    marks = set(attrs["spec"]) & set(";*~")
    return (
        f'R.einsum(({operands[0]},{", ".join(operands[1:])}), "{attrs["spec"]}")'
        if marks
        else (sig(attrs["spec"])(operands, attrs))
    )


TEXTS: dict[str, Callable[[Operands, Attrs], str]] = {
    "relu": call("nn.relu"),
    "neg": call("negative"),
    **{name: call(name) for name in ("exp", "sqrt", "tanh", "sigmoid", "linear")},
    **{name: sig("*s -> *s") for name in ("identity", "cast")},
    **{name: binary(name) for name in ("add", "maximum", "minimum")},
    "sub": binary("subtract"),
    "mul": binary("multiply"),
    "div": binary("divide"),
    "where": call("where"),
    "conv1d": conv("nn.conv1d"),
    "conv2d": conv("nn.conv2d"),
    "pool2d": pool,
    "transpose": call("permute_dims", "axes"),
    "swap_last": sig("*s a b -> *s b a"),
    "reduce": reduce,
    "softmax": call("nn.softmax", "axis"),
    "cumsum": call("cumsum", "axis"),
    "reverse": call("flip", "axis"),
    "concat": listed("concat"),
    "stack": listed("stack"),
    "split": split,
    "slice": slices,
    "reshape": call("reshape", "shape"),
    "reshape_like": sig("*s; *t -> *t where elements(*s) == elements(*t)"),
    "flatten": flatten,
    "expand_dims": call("expand_dims", "axis"),
    "squeeze": squeeze,
    "broadcast_to": call("broadcast_to", "shape"),
    "broadcast_like": sig("~s; *s -> *s"),
    "pad": pad,
    "repeat": repeat,
    "embedding": sig("*s; v d -> *s d"),
    "layer_norm": layer_norm,
    "matmul": matmul,
    "gemm": gemm,
    "einsum": einsum,
    "sig": lambda operands, attrs: sig(attrs["spec"])(operands, attrs),
}
# What a third operand does to the result of an op that the language has for two.
BIASED = {"gemm": "*s; ~s -> *s", "conv1d": "n o *r; o -> n o *r", "conv2d": "n o *r; o -> n o *r"}


class _Shapes:
    """Formats partial shapes as StructInfo."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}  # sizes with a name

    def info(self, shape: list[Any] | None) -> str:
        if shape is None:
            return 'R.Tensor(dtype="float32")'
        sizes = [self.size(entry) for entry in shape]
        return f'R.Tensor(({"".join(s + ", " for s in sizes)}), "float32")'

    def size(self, entry: Any) -> str:
        match entry:
            case None:
                return '"_"'
            case int():
                return str(entry)
            case {"expr": text}:
                return f'"{text}"'
            case {"row": name}:
                return f'"*{name}"'
            case {"dim": size, "label": label}:
                return f'"{self.size(size).strip(chr(34))}:{label}"'
            case "*":
                return '"*"'
            case str():
                self.names[entry] = None
                return f'"{entry}"'
        raise NoText(str(entry))


def value(name: str) -> str:
    """Returns the name of a value in the source."""
    return f"v_{name}"


Given = dict[str, list[Any]]


def text_of(case: Case, given: Given | None = None) -> str:
    """Returns the source of a case, with additional shapes of some values. Raises NoText if there
    is none."""
    helpers = [function_text(name, f, [], {}) for name, f in case.get("funcs", {}).items()]
    main = function_text("main", case, case.get("facts", []), given or {})
    return "\n".join([*helpers, main])


def function_text(name: str, function: Case, facts: list[Any], given: Given) -> str:
    shapes = _Shapes()
    infos = [(value(p["name"]), shapes.info(p.get("shape"))) for p in function["params"]]
    params = ", ".join(f"{param}: {info}" for param, info in infos)
    known, shapes.names = shapes.names, {}
    lines = [line for op in function["ops"] for line in op_lines(function, op, shapes)]
    declared = [f"{name} = T.int64()" for name in shapes.names if name not in known]
    stated = [f'"{fact_text(*fact)}"' for fact in facts]
    required = [f"R.require({', '.join(stated)})"] if stated else []
    results = [value(name) for name in function["ret"]]
    returned = results[0] if len(results) == 1 else f"({', '.join(results)})"
    known_too = {value(p["name"]): given[p["name"]] for p in function["params"] if given}
    casts = [f"{v}_given = R.match_cast({v}, {shapes.info(s)})" for v, s in known_too.items()]
    body = "\n    ".join([*declared, *casts, *required, *lines, f"return {returned}"])
    return f"@R.function\ndef {name}({params}):\n    {body}\n"


def fact_text(left: Any, op: str, right: Any) -> str:
    return f"{left} % {right} == 0" if op == "%" else f"{left} {op} {right}"


def op_lines(case: Case, op: Case, shapes: _Shapes) -> list[str]:
    operands, results = [value(name) for name in op["in"]], [value(name) for name in op["out"]]
    lines = bound_lines(op, operands, results)
    for name in op["out"]:
        shape = case.get("annotations", {}).get(name)
        if shape is not None:
            lines.append(f"{value(name)}_is = R.match_cast({value(name)}, {shapes.info(shape)})")
    return lines


def bound_lines(op: Case, operands: Operands, results: list[str]) -> list[str]:
    kind, attrs = op["op"], op["attrs"]
    if kind in BIASED and len(operands) == 3:
        first = f"{results[0]}_plain"
        biased = sig(BIASED[kind])([first, operands[2]], attrs)
        return [f"{first} = {TEXTS[kind](operands, attrs)}", f"{results[0]} = {biased}"]
    if kind == "call":
        written = f"{attrs['func']}({', '.join(operands)})"
    elif kind == "scan":
        count = attrs["states"]
        states, captured = (
            f"({''.join(o + ', ' for o in part)})"
            for part in (operands[:count], operands[count + 1 :])
        )
        written = f"R.scan({attrs['func']}, {states}, {operands[count]}, {captured})"
    elif kind in TEXTS:
        written = TEXTS[kind](operands, attrs)
    else:
        raise NoText(kind)
    if len(results) == 1:
        return [f"{results[0]} = {written}"]
    whole = "_".join(results)
    parts = [f"{name} = {whole}[{k}]" for k, name in enumerate(results)]
    return [f"{whole} = {written}", *parts]
