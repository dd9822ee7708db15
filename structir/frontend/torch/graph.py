"""Data classes of an exported program, parsed from its JSON: graphs, nodes, metadata, signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.torch.fields import (
    COMPLEX_PARTS,
    DTYPES,
    as_float,
    field,
    malformed,
    tagged,
)
from structir.system.locks import cached_property

MAX_DEPTH = 60  # nested graphs


@attrs.frozen
class Ref:
    """A reference to a value by name."""

    name: str


@attrs.frozen
class DTypeName:
    """An element type as an argument; `dtype` is None for an unsupported one."""

    dtype: str | None


@attrs.frozen
class StorageAttribute:
    """A device, layout or memory format: an attribute of the storage, not of the value."""

    text: str


@attrs.frozen
class Meta:
    """The metadata of a tensor; sizes and strides are ints or strings of symbolic expressions.

    `dtype` of a complex tensor is the dtype of its parts.
    """

    dtype: str | None
    sizes: tuple[int | str, ...]
    strides: tuple[int | str, ...]
    is_complex: bool = False
    offset: int | str = 0  # of the first element in its storage


@attrs.frozen(eq=False)
class NodeSpec:
    """One node: its target, arguments by name, output names, and stack trace."""

    target: str
    args: Mapping[str, Any]
    outputs: tuple[Any, ...]
    name: str
    trace: str = ""
    line: int = 0


@attrs.frozen(eq=False)
class FxGraph:
    """A graph: its nodes in order, inputs, outputs, and the metadata of its values."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    nodes: tuple[NodeSpec, ...]
    tensors: Mapping[str, Meta]
    scalars: Mapping[str, int | float | str]  # symbolic numbers, by name: values or expressions
    single: bool = False

    @cached_property
    def is_real(self) -> bool:
        """Whether no tensor is complex."""
        return not any([meta.is_complex for meta in self.tensors.values()])


@attrs.frozen
class Input:
    """An input of the program; `kind` is `user`, `parameter`, `buffer`, `constant`, `value`, `size`
    or `token`. A `size` is a number that sizes of tensors determine."""

    kind: str
    value: Any  # a Ref, or a constant value
    target: str = ""


@attrs.frozen
class Output:
    """An output of the program; `kind` is `user`, `token` or the mutation of a buffer, parameter
    or input."""

    kind: str
    value: Any
    target: str = ""


@attrs.frozen(eq=False)
class ExportedModule:
    """An exported program without its tensors."""

    graph: FxGraph
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    ranges: Mapping[str, tuple[int | None, int | None]]
    guards: tuple[str, ...]  # conditions on sizes, as Python expressions
    version: str


def program_of(data: Any) -> ExportedModule:
    """Returns the program of the JSON of a `.pt2` archive."""
    module = field(data, "graph_module", dict)
    signature = field(module, "signature", dict)
    ranges = field(data, "range_constraints", dict)
    return ExportedModule(
        _graph(field(module, "graph", dict), 0),
        tuple([_input(i) for i in field(signature, "input_specs", list)]),
        tuple([_output(o) for o in field(signature, "output_specs", list)]),
        {name: (_bound(r, "min_val"), _bound(r, "max_val")) for name, r in ranges.items()},
        _guards(data.get("guards_code") or []),
        str(data.get("torch_version", "")),
    )


def _guards(data: Any) -> tuple[str, ...]:
    if not isinstance(data, list) or not all([isinstance(text, str) for text in data]):
        raise malformed("a list of guard expressions")
    return tuple(data)


def _bound(data: Any, name: str) -> int | None:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, int) else None


def _graph(data: Any, depth: int) -> FxGraph:
    if depth > MAX_DEPTH:
        raise malformed(f"graphs nested at most {MAX_DEPTH} deep")
    scalars: dict[str, int | float | str] = {}
    for kind in ("sym_int_values", "sym_bool_values", "sym_float_values"):
        for name, value in (data.get(kind) or {}).items():
            scalars[name] = _symbolic(value)
    return FxGraph(
        tuple([argument(a, depth) for a in field(data, "inputs", list)]),
        tuple([argument(a, depth) for a in field(data, "outputs", list)]),
        tuple([_node(n, k, depth) for k, n in enumerate(field(data, "nodes", list))]),
        {name: _meta(m) for name, m in field(data, "tensor_values", dict).items()},
        scalars,
        bool(data.get("is_single_tensor_return")),
    )


def _node(data: Any, index: int, depth: int) -> NodeSpec:
    args: dict[str, Any] = {}
    for k, item in enumerate(field(data, "inputs", list)):
        name = field(item, "name", str) or f"*{k}"  # arguments outside a schema have no name
        args[name if name not in args else f"{name}*{k}"] = argument(item.get("arg"), depth)
    outputs = tuple([argument(o, depth) for o in field(data, "outputs", list)])
    metadata = data.get("metadata")
    trace = metadata.get("stack_trace") if isinstance(metadata, dict) else ""
    target = field(data, "target", str).removeprefix("torch.ops.")
    declared_name = data.get("name")
    name = (
        declared_name if isinstance(declared_name, str) else next(iter(names_of(outputs)), target)
    )
    return NodeSpec(target, args, outputs, name, str(trace or ""), index + 1)


def names_of(value: Any) -> list[str]:
    """Returns the names of all values in an argument."""
    if isinstance(value, Ref):
        return [value.name]
    names: list[str] = []
    if isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, Ref):
                names.append(item.name)
            elif isinstance(item, list | tuple):
                names += names_of(item)
    return names


def is_used(graph: FxGraph, name: str) -> bool:
    """Returns whether a node or an output of a graph refers to a value."""
    operands = [argument for node in graph.nodes for argument in node.args.values()]
    return any(name in names_of(argument) for argument in (*operands, *graph.outputs))


def has_complex(graph: FxGraph, spec: NodeSpec) -> bool:
    """Returns whether an argument or a result of a node is complex."""
    values = list(spec.args.values())
    if any([isinstance(value, complex) for value in values]):
        return True
    if graph.is_real:
        return False
    metas = map(graph.tensors.get, [*names_of(spec.outputs), *names_of(values)])
    return any([meta is not None and meta.is_complex for meta in metas])


def all_graphs(graph: FxGraph) -> Iterator[FxGraph]:
    """Yields a graph and all graphs nested in it."""
    yield graph
    for node in graph.nodes:
        for value in node.args.values():
            if isinstance(value, FxGraph):
                yield from all_graphs(value)


def _meta(data: Any) -> Meta:
    sizes = tuple([_symbolic(s) for s in field(data, "sizes", list)])
    strides = tuple([_symbolic(s) for s in field(data, "strides", list)])
    code = field(data, "dtype", int)
    dtype = COMPLEX_PARTS.get(code) or DTYPES.get(code)
    return Meta(dtype, sizes, strides, code in COMPLEX_PARTS)  # type: ignore[arg-type]


def _symbolic(union: Any) -> int | float | str:
    """Returns a number, or a symbolic expression as a string."""
    kind, value = tagged(union)
    if kind == "as_expr":
        return field(value, "expr_str", str)
    if not isinstance(value, int | float):
        raise malformed("a size")
    return value


# ---- arguments


def argument(union: Any, depth: int = 0) -> Any:
    """Returns an argument or output as a Python value; values of the graph are `Ref`s."""
    kind, value = tagged(union)
    read = ARGUMENTS.get(kind)
    if read is None:
        raise _unsupported(f"argument kind {kind!r}")
    return read(value, depth)


def _reference(value: Any, depth: int) -> Any:
    return Ref(field(value, "name", str))


def _symbol(value: Any, depth: int) -> Any:
    kind, inner = tagged(value)
    return Ref(str(inner)) if kind == "as_name" else inner


def _optional(value: Any, depth: int) -> Any:
    kind, inner = tagged(value)
    return Ref(field(inner, "name", str)) if kind == "as_tensor" else None


def _each(read: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    def every(value: Any, depth: int) -> Any:
        if not isinstance(value, list):
            raise malformed("a list")
        return tuple([read(item, depth) for item in value])

    return every


def _plain(kind: type) -> Callable[[Any, int], Any]:
    def read(value: Any, depth: int) -> Any:
        if not isinstance(value, kind):
            raise malformed(f"an argument of type {kind.__name__}")
        return value

    return read


def _inner_graph(value: Any, depth: int) -> FxGraph:
    return _graph(field(value, "graph", dict), depth + 1)


def _by_name(value: Any, depth: int) -> Any:
    if not isinstance(value, dict):
        raise malformed("named arguments")
    return {str(name): argument(item, depth) for name, item in value.items()}


def _float(value: Any, depth: int) -> float:
    return as_float(value)


def _complex(value: Any, depth: int) -> complex:
    return complex(field(value, "real", float), field(value, "imag", float))


ARGUMENTS: dict[str, Callable[[Any, int], Any]] = {
    "as_none": lambda value, depth: None,
    "as_tensor": _reference,
    "as_tensors": _each(_reference),
    "as_nested_tensors": _each(_each(_reference)),
    "as_optional_tensor": _optional,
    "as_optional_tensors": _each(_optional),
    "as_int": _plain(int),
    "as_ints": _each(_plain(int)),
    "as_int_lists": _each(_each(_plain(int))),
    "as_float": _float,
    "as_floats": _each(_float),
    "as_float_lists": _each(_each(_float)),
    "as_bool": _plain(bool),
    "as_bools": _each(_plain(bool)),
    "as_string": _plain(str),
    "as_strings": _each(_plain(str)),
    "as_sym_int": _symbol,
    "as_sym_ints": _each(_symbol),
    "as_sym_bool": _symbol,
    "as_sym_bools": _each(_symbol),
    "as_sym_float": _symbol,
    "as_sym_floats": _each(_symbol),
    "as_scalar_type": lambda value, depth: DTypeName(DTYPES.get(value) or COMPLEX_PARTS.get(value)),
    "as_memory_format": lambda value, depth: StorageAttribute(str(value)),
    "as_layout": lambda value, depth: StorageAttribute(str(value)),
    "as_device": lambda value, depth: StorageAttribute(str(value)),
    "as_operator": lambda value, depth: StorageAttribute(str(value)),
    "as_custom_obj": _reference,
    "as_complex": _complex,
    "as_graph": _inner_graph,
    "as_string_to_argument": _by_name,
}


# ---- inputs and outputs

TARGET_FIELDS = {
    "parameter": "parameter_name",
    "buffer": "buffer_name",
    "tensor_constant": "tensor_constant_name",
    "custom_obj": "custom_obj_name",
}
MUTATION_FIELDS = {
    "buffer_mutation": "buffer_name",
    "parameter_mutation": "parameter_name",
    "user_input_mutation": "user_input_name",
}


def _input(union: Any) -> Input:
    kind, data = tagged(union)
    if kind == "user_input":
        return Input("user", argument(data.get("arg")))
    if kind == "constant_input":
        return Input("value", argument(data.get("value")), field(data, "name", str))
    if kind == "token":
        return Input("token", _reference(data.get("arg"), 0))
    if kind in TARGET_FIELDS:
        value = _reference(data.get("arg"), 0)
        return Input(kind.replace("tensor_", ""), value, field(data, TARGET_FIELDS[kind], str))
    raise _unsupported(f"input kind {kind!r}")


def _output(union: Any) -> Output:
    kind, data = tagged(union)
    if kind in ("user_output", "loss_output"):
        arg = data.get("arg")
        return Output("user", argument(arg) if kind == "user_output" else _reference(arg, 0))
    if kind == "token":
        return Output("token", _reference(data.get("arg"), 0))
    if kind in MUTATION_FIELDS:
        return Output(kind, _reference(data.get("arg"), 0), field(data, MUTATION_FIELDS[kind], str))
    raise _unsupported(f"output kind {kind!r}")


def _unsupported(feature: str) -> DiagnosticError:
    """Returns the error of an unsupported feature."""
    return DiagnosticError(
        Diagnostic(f"unsupported {feature} in the exported program", code="E0808")
    )
