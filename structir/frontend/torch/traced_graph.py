"""Conversion of a traced `torch.fx.GraphModule` of ATen ops to the data classes of a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.torch.effects import WITH_EFFECTS
from structir.frontend.torch.fields import COMPLEX_PARTS, DTYPES
from structir.frontend.torch.graph import (
    DTypeName,
    ExportedModule,
    FxGraph,
    Input,
    Meta,
    NodeSpec,
    Output,
    Ref,
    StorageAttribute,
    names_of,
)
from structir.frontend.torch.tensors import as_array
from structir.lazy import lazy_module

sympy = lazy_module("sympy")
torch = lazy_module("torch")
COMPLEX_DTYPES = {"float32": "complex64", "float64": "complex128"}
COMPLEX = {"complex64": COMPLEX_PARTS[10], "complex128": COMPLEX_PARTS[11]}
GET_ITEM = "_operator.getitem"
# random ops whose operands determine sizes only: the function of torch, and its arguments
SAMPLERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "aten.rand.default": ("rand", ()),
    "aten.rand_like.default": ("rand", ()),
    "aten.randn.default": ("randn", ()),
    "aten.randn_like.default": ("randn", ()),
    "aten.randint.default": ("randint", ("high",)),
    "aten.randint.low": ("randint", ("low", "high")),
    "aten.randint_like.default": ("randint", ("high",)),
    "aten.randint_like.low_dtype": ("randint", ("low", "high")),
}


@attrs.frozen(eq=False)
class RandomTensor:
    """A tensor that torch samples at each call: the op, the numbers that it takes before the
    shape, and the metadata of the tensor."""

    name: str
    op: Any
    numbers: tuple[Any, ...]
    meta: Meta


@attrs.frozen(eq=False)
class TracedProgram:
    """A traced graph as a program, with its constant tensors by name.

    The parameters of the program are the inputs of the graph with the numbers `inputs`, then the
    random tensors `samples`. `results` are the outputs of the graph: `("input", k)`,
    `("result", k)` or `("value", constant)`.
    """

    module: ExportedModule
    constants: Mapping[str, Any]
    inputs: tuple[int, ...]
    samples: tuple[RandomTensor, ...]
    results: tuple[tuple[str, Any], ...]


@attrs.frozen(eq=False)
class TracedTensors:
    """The constants of a traced graph as the tensors of a program."""

    name: str
    constants: Mapping[str, Any]

    def payloads(self, kind: str) -> Mapping[str, Any]:
        """Returns the constants by name."""
        return self.constants if kind == "constants" else {}

    def tensor(self, name: str, payload: Any) -> Any:
        """Returns the elements of a constant."""
        data = as_array(payload)
        return data.view(COMPLEX_DTYPES[data.dtype.name])[..., 0] if payload.is_complex() else data


def traced_program(graph_module: Any) -> TracedProgram:
    """Converts a graph of functional ATen ops, whose nodes have the metadata `val`.

    Outputs that are inputs or constants are not results of the program, and each other output is
    one result. Raises DiagnosticError for an argument of another type than torch's schemas have.
    """
    reader = _GraphReader(graph_module)
    graph = reader.graph()
    names = [value.name for value in graph.inputs]
    kinds = [reader.kind_of(name, names) for name in names]
    parameters = [k for k, kind in enumerate(kinds) if kind == "user"]
    inputs = [Input(kind, Ref(name)) for kind, name in zip(kinds, names, strict=True)]
    inputs += [Input("user", Ref(sample.name)) for sample in reader.samples]
    inputs += [Input("constant", Ref(name), name) for name in reader.constants]
    computed: dict[Any, int] = {}
    results: list[tuple[str, Any]] = []
    for output in graph.outputs:
        if not isinstance(output, Ref):
            results.append(("value", output))
        elif output.name in names:
            results.append(("input", names.index(output.name)))
        elif output.name in reader.tokens:
            results.append(("input", names.index(next(n for n in names if n in reader.tokens))))
        else:
            results.append(("result", computed.setdefault(output, len(computed))))
    samples = tuple([Ref(sample.name) for sample in reader.samples])
    graph = attrs.evolve(graph, inputs=(*graph.inputs, *samples), outputs=tuple(computed))
    outputs = tuple([Output("user", ref) for ref in computed])
    version = str(torch.__version__)
    module = ExportedModule(graph, tuple(inputs), outputs, reader.ranges(), (), version)
    constants, samples_of_calls = reader.constants, tuple(reader.samples)
    return TracedProgram(module, constants, tuple(parameters), samples_of_calls, tuple(results))


class _GraphReader:
    """Converts one graph; `constants` are the tensors that it reads as attributes."""

    def __init__(self, graph_module: Any) -> None:
        self.graph_module = graph_module
        self.nodes = list(graph_module.graph.nodes)
        self.values: dict[Any, Any] = {}  # by node: a Ref, or a nested graph
        self.tensors: dict[str, Meta] = {}
        self.scalars: dict[str, int | float | str] = {}
        self.constants: dict[str, Any] = {}
        self.samples: list[RandomTensor] = []
        self.tokens: set[str] = set()  # values that order effects

    def graph(self) -> FxGraph:
        """Returns the graph."""
        inputs: list[Any] = []
        specs: list[NodeSpec] = []
        outputs: tuple[Any, ...] = ()
        for node in self.nodes:
            if node.op == "placeholder":
                inputs.append(self._value(node, node.name, node.meta.get("val")))
                self.values[node] = inputs[-1]
            elif node.op == "get_attr":
                self.values[node] = self._attribute(node)
            elif node.op == "output":
                outputs = self._argument(node.args[0])
            elif target_of(node) == GET_ITEM and node not in self.values:
                self.values[node] = self._argument(node.args[0])[node.args[1]]
            elif target_of(node) in SAMPLERS:
                self.values[node] = self._sample(node)
            elif target_of(node) != GET_ITEM:
                specs.append(self._spec(node, len(specs) + 1))
        return FxGraph(tuple(inputs), outputs, tuple(specs), self.tensors, self.scalars)

    def kind_of(self, name: str, inputs: Sequence[str]) -> str:
        """Returns the kind of an input: a `user` argument, a `size` of another one, or a
        `token`."""
        metas = [self.tensors[other] for other in inputs if other in self.tensors]
        sizes = {size for meta in metas for size in meta.sizes}
        is_size = name in self.scalars and self.scalars[name] in sizes
        return "token" if name in self.tokens else "size" if is_size else "user"

    def ranges(self) -> dict[str, tuple[int | None, int | None]]:
        """Returns the bounds of the sizes of the graph, by torch's names."""
        numbers = [number for node in self.nodes for number in _symbolic(node.meta.get("val"))]
        environments = {id(n.node.shape_env): n.node.shape_env for n in numbers}
        bounds = {}
        for environment in environments.values():
            for symbol, interval in environment.var_to_range.items():
                bounds[str(symbol)] = _integer(interval.lower), _integer(interval.upper)
        return bounds

    def _spec(self, node: Any, line: int) -> NodeSpec:
        arguments = self._arguments(node)
        outputs = self._outputs(node)
        if target_of(node) == WITH_EFFECTS:
            self.tokens |= {*names_of([arguments["*0"], outputs[0]])}
        self.values[node] = outputs[0] if len(outputs) == 1 else outputs
        trace = str(node.meta.get("stack_trace") or "")
        return NodeSpec(target_of(node), arguments, outputs, node.name, trace, line)

    def _sample(self, node: Any) -> Ref:
        """Declares a random tensor as an input."""
        op, numbers = SAMPLERS[target_of(node)]
        parameters = [argument.name for argument in node.target._schema.arguments]
        values = dict(zip(parameters, node.args, strict=False)) | node.kwargs
        named = {n: v for n in numbers if (v := values.get(n)) is not None}
        if not all([isinstance(v, int | float) for v in named.values()]):
            raise _unsupported(f"{node.name}: an argument of {op} that depends on data")
        reference = self._value(node, node.name, node.meta["val"])
        meta = self.tensors[node.name]
        self.samples.append(RandomTensor(node.name, op, tuple(named.values()), meta))
        return Ref(reference.name)

    def _arguments(self, node: Any) -> dict[str, Any]:
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema is not None else []
        names += [f"*{k}" for k in range(len(names), len(node.args))]
        pairs = zip(names, node.args, strict=False)
        arguments = {name: self._argument(value) for name, value in pairs}
        return arguments | {name: self._argument(v) for name, v in node.kwargs.items()}

    def _outputs(self, node: Any) -> tuple[Any, ...]:
        value = node.meta.get("val")
        if target_of(node) == WITH_EFFECTS:  # an op without results has the result None
            value = [field for field in value if field is not None]
        if not isinstance(value, tuple | list):
            return (self._value(node, node.name, value),)
        users = [user for user in node.users if target_of(user) == GET_ITEM]
        names = {user.args[1]: user.name for user in reversed(users)}
        fields = []
        for index, field in enumerate(value):
            name = names.get(index, f"{node.name}_{index}")
            fields.append(self._value(node, name, field))
        for user in users:
            self.values[user] = fields[user.args[1]]
        schema = getattr(node.target, "_schema", None)
        is_list = schema is not None and len(schema.returns) == 1
        return (tuple(fields),) if is_list else tuple(fields)

    def _value(self, node: Any, name: str, value: Any) -> Any:
        """Declares a value by the metadata of its node; returns the reference to it."""
        if isinstance(value, torch.Tensor):
            self.tensors[name] = _meta(value)
        elif isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float):
            self.scalars[name] = _number(value)
        elif value is not None:
            raise _unsupported(f"{node.name}: a value of type {type(value).__name__}")
        return Ref(name)

    def _attribute(self, node: Any) -> Any:
        value = self.graph_module
        for name in node.target.split("."):
            value = getattr(value, name)
        if isinstance(value, torch.fx.GraphModule):
            return _GraphReader(value).graph()
        if not isinstance(value, torch.Tensor):
            raise _unsupported(f"{node.name}: an attribute of type {type(value).__name__}")
        self.constants[node.name] = value
        self.tensors[node.name] = _meta(value)
        return Ref(node.name)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return self.values[value]
        if isinstance(value, list | tuple):
            return tuple([self._argument(item) for item in value])
        if isinstance(value, dict):
            return {str(key): self._argument(item) for key, item in value.items()}
        if isinstance(value, torch.dtype):
            name = _dtype_name(value)
            return DTypeName(COMPLEX.get(name or "") or name)
        if value is None or isinstance(value, bool | int | float | complex | str):
            return value
        return StorageAttribute(str(value))


def target_of(node: Any) -> str:
    """Returns the name of the function of a node as exported programs spell it: `aten.add.Tensor`,
    `_operator.mul`, `higher_order.cond`."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    name = getattr(target, "__name__", str(target))
    module = str(getattr(target, "__module__", "")).removeprefix("torch.ops.")
    return f"{module}.{name}"


def _symbolic(value: Any) -> Iterator[Any]:
    """Yields the symbolic numbers in the metadata of a node."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        yield value
    elif isinstance(value, tuple | list | torch.Size):
        for item in value:
            yield from _symbolic(item)
    elif isinstance(value, torch.Tensor):
        yield from _symbolic(value.shape)


def _meta(value: Any) -> Meta:
    name = str(value.dtype).removeprefix("torch.")
    sizes = tuple([_number(size) for size in value.shape])
    if value.layout != torch.strided:
        raise _unsupported(f"layout {value.layout} of a tensor")
    strides = tuple([_number(stride) for stride in value.stride()])
    dtype = COMPLEX.get(name) or _dtype_name(value.dtype)
    return Meta(dtype, sizes, strides, name in COMPLEX, _number(value.storage_offset()))


def _dtype_name(dtype: Any) -> str | None:
    name = str(dtype).removeprefix("torch.")
    return name if name in DTYPES.values() or name in COMPLEX else None


def _number(value: Any) -> Any:
    """Returns a number, or a symbolic one as the text of its expression."""
    if isinstance(value, bool | int | float):
        return value
    expression = value.node.expr
    if expression.is_number:
        return int(expression) if expression.is_integer else float(expression)
    return sympy.srepr(expression)


def _integer(bound: Any) -> int | None:
    return int(bound) if getattr(bound, "is_Integer", False) else None


def _unsupported(feature: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(f"unsupported {feature} in the graph", code="E0808"))
