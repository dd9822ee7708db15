"""Measures whole models of torchvision, timm and transformers against ONNX Runtime and torch eager.

    python benchmarks/models.py --only bert,lstm
    python benchmarks/models.py --threads 0 --precision int8

Needs torch, torchvision, timm, transformers and onnxscript. The models have the widths of their
published configurations, two layers where they repeat, and random weights. Each is exported once by
`torch.export` for StructIR and by `torch.onnx.export` for ONNX Runtime. Each system runs in a
process of its own, in turns with the others. The columns are the shortest elapsed and CPU times of
StructIR, and the times of each peer divided by those of StructIR: shortest and median, elapsed and
CPU time. `--threads 0` leaves the number of threads to each system.
`--precision int8` quantizes the ONNX model dynamically (ONNX Runtime's quantizer) and imports it.
`--processor haswell` generates code for AVX2 and limits torch to AVX2; ONNX Runtime is left out,
since it has no such option.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from turns import Program, Sample, System, burst, conditions, least, median, samples_in_turns

HERE = Path(__file__).resolve().parent
THREADS = ("STRUCTIR", "OPENBLAS", "MKL", "OMP", "NUMBA")
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
TEXT_SIZES = ((1, 16), (1, 128), (8, 32))
SEQUENCE_SIZES = ((1, 32), (8, 32))  # torch.export fixes the length
IMAGE_SIZES = ((1, 224), (4, 224))
MEASURES = ("shortest", "CPU", "median", "median CPU")
TOLERANCE = {"float32": 2e-3, "int8": 0.1}  # of the largest element of ONNX Runtime's result
Programs = dict[Hashable, Program]


class Model(NamedTuple):
    """A model: how it is built, its inputs at a size, and the sizes that are measured."""

    kind: str
    build: Callable[[], Any]
    inputs: Callable[[int, int], tuple[Any, ...]]
    sizes: tuple[tuple[int, int], ...]


# ---- the models


def _tokens(batch: int, length: int) -> tuple[Any, ...]:
    return (importlib.import_module("torch").randint(3, 900, (batch, length)),)


def _images(batch: int, size: int) -> tuple[Any, ...]:
    return (importlib.import_module("torch").randn(batch, 3, size, size),)


def _sequences(batch: int, length: int) -> tuple[Any, ...]:
    return (importlib.import_module("torch").randn(batch, length, 128),)


def _transformer(name: str, fields: Mapping[str, Any]) -> Callable[[], Any]:
    def build() -> Any:
        transformers = importlib.import_module("transformers")
        configuration = transformers.AutoConfig.for_model(name, **fields)
        configuration.use_cache = False
        model = transformers.AutoModel.from_config(configuration)
        forward = model.forward
        model.forward = lambda input_ids: forward(input_ids)[0]
        return model

    return build


def _recurrent(name: str, **options: Any) -> Callable[[], Any]:
    def build() -> Any:
        nn = importlib.import_module("torch").nn
        layer = getattr(nn, name)(128, 256, batch_first=True, **options)
        layer.forward = lambda x, forward=layer.forward: forward(x)[0]
        return layer

    return build


def _image_model(library: str, name: str) -> Callable[[], Any]:
    def build() -> Any:
        if library == "timm":
            return importlib.import_module("timm").create_model(name)
        return importlib.import_module("torchvision.models").get_model(name, weights=None)

    return build


TWO_LAYERS = {"num_hidden_layers": 2, "vocab_size": 1000}
WIDE = TWO_LAYERS | {"hidden_size": 512, "intermediate_size": 1408, "num_attention_heads": 8}
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
TEXTS: dict[str, dict[str, Any]] = {
    "bert": TWO_LAYERS,
    "distilbert": {"n_layers": 2, "vocab_size": 1000},
    "roberta": TWO_LAYERS,
    "electra": TWO_LAYERS,
    "mpnet": TWO_LAYERS,
    "modernbert": TWO_LAYERS | TOKENS | {"pad_token_id": 0},
    "gpt2": {"n_layer": 2, "vocab_size": 1000},
    "gpt_neox": WIDE,
    "llama": WIDE | {"num_key_value_heads": 8},
    "qwen3": WIDE | {"num_key_value_heads": 4, "head_dim": 64},
    "gemma": WIDE | {"num_key_value_heads": 2, "head_dim": 64, "pad_token_id": 0},
    "opt": TWO_LAYERS,
}
RECURRENT: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "lstm, 2 layers": ("LSTM", {"num_layers": 2}),
    "lstm, bidirectional": ("LSTM", {"bidirectional": True}),
    "gru": ("GRU", {}),
    "rnn": ("RNN", {}),
}
VISION_TRANSFORMERS = "vit_tiny_patch16_224 deit_small_patch16_224 swin_tiny_patch4_window7_224"
CONVNETS = "resnet18 resnet50 squeezenet1_1 mobilenet_v2 mobilenet_v3_small vgg11"
CONVNETS += " efficientnet_b0 densenet121 shufflenet_v2_x1_0 regnet_y_400mf convnext_tiny"


def models() -> dict[str, Model]:
    """Returns the models by name."""
    result = {
        name: Model("transformer", _transformer(name, fields), _tokens, TEXT_SIZES)
        for name, fields in TEXTS.items()
    }
    for name in VISION_TRANSFORMERS.split():
        result[name] = Model("transformer", _image_model("timm", name), _images, IMAGE_SIZES[:1])
    for name, (kind, options) in RECURRENT.items():
        result[name] = Model("recurrent", _recurrent(kind, **options), _sequences, SEQUENCE_SIZES)
    for name in CONVNETS.split():
        result[name] = Model("convnet", _image_model("torchvision", name), _images, IMAGE_SIZES)
    return result


# ---- the systems, each in a process of its own


def export(name: str, folder: str, options: argparse.Namespace) -> Programs:
    """Writes `model.onnx`, and `model.pt2` unless it is quantized, and the inputs of each size."""
    torch = importlib.import_module("torch")
    model, network = _network(name)
    inputs = model.inputs(2, model.sizes[-1][1])
    axes = (0, 1) if inputs[0].dtype == torch.int64 else (0,)
    shapes = (dict.fromkeys(axes, torch.export.Dim.AUTO),)
    path = str(Path(folder) / "model.onnx")
    with torch.no_grad():
        exported = torch.onnx.export(
            network, inputs, dynamic_shapes=shapes, dynamo=True, verbose=False
        )
        exported.save(path)
        if options.precision == "int8":
            quantization = importlib.import_module("onnxruntime.quantization")
            quantization.quantize_dynamic(path, path, weight_type=quantization.QuantType.QInt8)
        else:
            program = torch.export.export(network, inputs, dynamic_shapes=shapes)
            torch.export.save(program, str(Path(folder) / "model.pt2"))
    arrays = {str(k): model.inputs(*size)[0].numpy() for k, size in enumerate(model.sizes)}
    np.savez(Path(folder) / "inputs.npz", **arrays)
    return {}


def _network(name: str) -> tuple[Model, Any]:
    """Returns a model and its network, with the same random weights in every process."""
    importlib.import_module("torch").manual_seed(0)
    model = models()[name]
    return model, model.build().eval()


def structir_programs(name: str, folder: str, options: argparse.Namespace) -> Programs:
    """Returns the programs of StructIR."""
    structir = importlib.import_module("structir")
    if options.precision == "int8":
        module = importlib.import_module("structir.frontend.onnx").from_onnx(f"{folder}/model.onnx")
    else:
        module = importlib.import_module("structir.frontend.torch").from_pt2(f"{folder}/model.pt2")
    main = structir.compile(module, num_threads=options.threads or None)["main"]

    def call(x: Any) -> Any:
        result = main(x)
        return result[0] if isinstance(result, tuple | list) else result

    return _programs(call, _inputs(folder))


def onnxruntime_programs(name: str, folder: str, options: argparse.Namespace) -> Programs:
    """Returns the programs of ONNX Runtime."""
    onnxruntime = importlib.import_module("onnxruntime")
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads  # 0 is its default
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        f"{folder}/model.onnx", settings, providers=["CPUExecutionProvider"]
    )
    parameter = session.get_inputs()[0].name
    return _programs(lambda x: session.run(None, {parameter: x})[0], _inputs(folder))


def torch_programs(name: str, folder: str, options: argparse.Namespace) -> Programs:
    """Returns the programs of torch eager."""
    torch = importlib.import_module("torch")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    _, network = _network(name)

    def call(x: Any) -> Any:
        result = network(x)
        return result[0] if isinstance(result, tuple | list) else result

    return _programs(call, [torch.from_numpy(x) for x in _inputs(folder)])


def _inputs(folder: str) -> list[Any]:
    with np.load(Path(folder) / "inputs.npz") as arrays:
        return [arrays[str(k)] for k in range(len(arrays))]


def _programs(call: Callable[[Any], Any], inputs: list[Any]) -> Programs:
    """Returns two programs for each size: the result of a call, and a sample of its time."""
    results: dict[Hashable, Program] = {}
    for k, x in enumerate(inputs):
        run = partial(call, x)
        results[k, "result"] = lambda run=run: np.asarray(run())
        results[k, "time"] = partial(burst, run)
    return results


PREPARE = {
    "StructIR": structir_programs,
    "ONNX Runtime": onnxruntime_programs,
    "torch": torch_programs,
}


# ---- all models


def measure(name: str, options: argparse.Namespace) -> Iterator[str]:
    """Yields a table row for each size of a model."""
    sizes = models()[name].sizes
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        System(export, name, folder, options).close()
        systems = dict[str, System]()
        for side, prepare in PREPARE.items():
            systems[side] = System(prepare, name, folder, options)
            stack.callback(systems[side].close)
        for k, size in enumerate(sizes):
            error = _difference(*(systems[s].run((k, "result")) for s in list(PREPARE)[:2]))
            if error > TOLERANCE[options.precision]:
                print(f"{name}: differs from ONNX Runtime by {error:.2g}", file=sys.stderr)
            timed = {s: each for s, each in systems.items() if s in _timed(options)}
            yield _row(name, size, samples_in_turns(timed, (k, "time"), options.rounds))


def _timed(options: argparse.Namespace) -> list[str]:
    """Returns the systems that are timed: ONNX Runtime cannot be limited to a processor."""
    return [side for side in PREPARE if not (options.processor and side == "ONNX Runtime")]


def _difference(result: Any, reference: Any) -> float:
    """Returns the largest difference relative to the largest element of the reference."""
    scale = float(np.abs(reference).max()) or 1.0
    return float(np.abs(result - reference).max()) / scale


def _row(name: str, size: tuple[int, int], samples: Mapping[str, list[Sample]]) -> str:
    """Returns the times of StructIR, and the ratios: shortest and median, elapsed and CPU time."""
    cells = [name, " x ".join(map(str, size))]
    ours, *peers = [(*least(each), *median(each)) for each in samples.values()]
    cells += [f"{ours[0] * 1e3:.3g} ms", f"{ours[1] * 1e3:.3g} ms"]
    for peer in peers:
        cells += [f"{theirs / time:.2f}" for theirs, time in zip(peer, ours, strict=True)]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="parts of the names, separated by commas")
    parser.add_argument("--threads", type=int, default=1, help="0: the default of each system")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--precision", default="float32", choices=("float32", "int8"))
    parser.add_argument("--processor", default="", help="the CPU that code is generated for")
    options = parser.parse_args()
    if options.threads:
        os.environ.update({f"{each}_NUM_THREADS": str(options.threads) for each in THREADS})
    paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    if options.processor:
        os.environ.update(AVX2 | {"NUMBA_CPU_NAME": options.processor})
    kinds = [f"{s}: {m}" for s in _timed(options)[1:] for m in MEASURES]
    print(f"| {conditions(options.threads)} | size | StructIR | CPU time | {' | '.join(kinds)} |")
    print("|---" * (4 + len(kinds)) + "|")
    for name in [n for n in models() if any(word in n for word in options.only.split(","))]:
        try:
            for row in measure(name, options):
                print(row, flush=True)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
