"""The sides that `kernels.py` compares: a case made ready to be called in each of them."""

import importlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

import structir
from kernel_cases import BLAS, COMPILED, JAX, ORT, TORCH, Array, Case
from structir.frontend.onnx import from_onnx

OWN = "StructIR"
Call = Callable[[], Any]
MISSING = {
    "onnxruntime": "ONNX Runtime: pip install onnxruntime",
    "torch": "torch and torch.compile: pip install torch, a build for CPUs; a C++ compiler",
    "jax": "JAX: pip install jax",
}


@cache
def library(name: str) -> Any:
    """A peer's module, if it is installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def missing() -> list[str]:
    """What to install for the columns that stay empty."""
    return [text for name, text in MISSING.items() if library(name) is None]


def own(case: Case, threads: int = 1) -> Callable[..., Any]:
    """The case by StructIR, first sizes symbolic where it is no image."""
    if case.model is not None:
        module = from_onnx(case.model)
    else:
        module = structir.parse(text_of(case), constants=_arrays(case))
    found: Callable[..., Any] = structir.compile(module, num_threads=threads)["main"]
    return found


def _arrays(case: Case) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in case.constants.items()}


def text_of(case: Case) -> str:
    """The case as a program."""
    params = [f'x{k}: R.Tensor({_sizes(shape)}, "float32")' for k, shape in enumerate(case.inputs)]
    used = [name for name in case.constants if any(name in _words(line) for line in case.lines)]
    lines = [f'{name} = metadata["{name}"]' for name in used]
    lines += [f"t{k} = {line}" for k, line in enumerate(case.lines)]
    last = f"t{len(case.lines) - 1}"
    body = "".join(f"\n        {line}" for line in [*lines, f"R.output({last})"])
    head = f"@R.function\ndef main({', '.join(params)}):\n    with R.dataflow():"
    return f"{head}{body}\n    return {last}\n"


def _words(line: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in line).split()


def _sizes(shape: tuple[int, ...]) -> str:
    if len(shape) == 4:
        return str(shape)
    symbolic = {1: ["n"], 2: ["n"], 3: ["b", "n"]}[len(shape)]
    known = [repr(s) for s in symbolic] + [str(d) for d in shape[len(symbolic) :]]
    return f"({', '.join(known)},)"


def arguments(case: Case) -> list[Array]:
    """What the case is called with."""
    if case.integers:
        ids, ones = case.inputs[0], np.ones(case.inputs[1], np.int64)
        return [np.random.default_rng(0).integers(0, case.integers, ids), ones]
    scale = np.float32(case.scale)
    made = [
        np.random.default_rng(k).standard_normal(s, np.float32) for k, s in enumerate(case.inputs)
    ]
    return [x * scale for x in made]


def _unaligned(shape: tuple[int, ...]) -> Array:
    """An array that starts where those of NumPy mostly do, 16 bytes after a line of cache."""
    room = np.zeros(int(np.prod(shape)) + 64, np.float32)
    start = (16 - room.ctypes.data) % 64 // 4
    return room[start : start + int(np.prod(shape))].reshape(shape)


def sides(case: Case, given: list[Array], names: set[str]) -> Iterator[tuple[str, Call]]:
    """Ours first, then every peer that there is and that is asked for."""
    yield OWN, partial(own(case), *given, **({"out": _unaligned(case.out)} if case.out else {}))
    if ORT in names and (case.nodes or case.model is not None) and library("onnxruntime"):
        yield ORT, by_onnxruntime(case, given)
    if case.torch is not None and library("torch"):
        yield from _by_torch(case, given, names)
    if JAX in names and case.jax is not None and library("jax"):
        jax = library("jax")
        jitted = jax.jit(partial(case.jax, jax))
        held = list(map(jax.device_put, [*given, *case.constants.values()]))
        yield JAX, lambda: jitted(*held).block_until_ready()
    if BLAS in names and case.numpy is not None:
        yield BLAS, partial(case.numpy, np, *given, *case.constants.values())


def _by_torch(case: Case, given: list[Array], names: set[str]) -> Iterator[tuple[str, Call]]:
    torch = library("torch")
    torch._dynamo.reset()
    held = [torch.from_numpy(np.asarray(v)) for v in [*given, *case.constants.values()]]
    run = partial(case.torch, torch) if case.torch is not None else None
    if TORCH in names and case.eager:
        yield TORCH, partial(run, *held)
    if COMPILED in names and case.compiled:

        def program(*values: Any) -> Any:
            return case.torch(torch, *values)  # type: ignore[misc]

        yield COMPILED, partial(torch.compile(program, dynamic=False), *held)


def by_onnxruntime(case: Case, given: list[Array], threads: int = 1) -> Call:
    """The case by ONNX Runtime, all of its own fusions on."""
    runtime = library("onnxruntime")
    model = case.model if case.model is not None else _model(case)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_inputs()]
    feed = dict(zip(names, given, strict=True))
    results = session.get_outputs()
    if len(results) > 1:
        return lambda: session.run(None, feed)
    return lambda: session.run(None, feed)[0]


def _model(case: Case) -> Any:
    onnx = importlib.import_module("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    made = [
        helper.make_node(kind, list(inputs), [f"t{k}"], **attributes)
        for k, (kind, inputs, attributes) in enumerate(case.nodes)
    ]
    inputs = [
        helper.make_tensor_value_info(f"x{k}", real, shape) for k, shape in enumerate(case.inputs)
    ]
    result = helper.make_tensor_value_info(f"t{len(made) - 1}", real, None)
    used = {name for _, names, _ in case.nodes for name in names}
    held = [
        onnx.numpy_helper.from_array(value, name)
        for name, value in _arrays(case).items()
        if name in used
    ]
    graph = helper.make_graph(made, "case", inputs, [result], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
