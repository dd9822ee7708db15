"""Measures whole models of torchvision, timm and transformers against ONNX Runtime and torch eager.

    python benchmarks/models.py --only bert,lstm
    python benchmarks/models.py --threads 2 --precision int8

Needs torch, torchvision, timm, transformers and onnxscript. The models have the widths of their
published configurations, two layers where they repeat, and random weights. Each is exported once by
`torch.export` for StructIR and by `torch.onnx.export` for ONNX Runtime. The sides are called in
turn in one process. Ratios are the time of the peer divided by that of StructIR: medians of CPU
time with one thread, else the shortest elapsed times.
`--precision int8` quantizes the ONNX model dynamically (ONNX Runtime's quantizer) and imports it.
`--processor haswell` generates code for AVX2 and limits torch to AVX2; ONNX Runtime is left out,
since it has no such option.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from processor import processor

HERE = Path(__file__).resolve().parent
THREADS = ("STRUCTIR", "OPENBLAS", "MKL", "OMP", "NUMBA")
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
TEXT_SIZES = ((1, 16), (1, 128), (8, 32))
SEQUENCE_SIZES = ((1, 32), (8, 32))  # torch.export fixes the length
IMAGE_SIZES = ((1, 224), (4, 224))
BURST = 0.02  # seconds of one sample
ROUNDS = 9
TOLERANCE = {"float32": 2e-3, "int8": 0.1}  # of the largest element of ONNX Runtime's result


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


# ---- one model, in a child process


def measure(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the seconds of each side at each size of a model, and the largest difference."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = models()[name]
    network = model.build().eval()
    rows = []
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        run = _compiled(torch, network, model.inputs(2, model.sizes[-1][1]), path, options)
        session = _session(path, options)
        for size in model.sizes:
            inputs = model.inputs(*size)
            arrays = [each.numpy() for each in inputs]
            feed = dict(zip([i.name for i in session.get_inputs()], arrays, strict=True))
            sides: dict[str, Callable[[], Any]] = {
                "structir": partial(run, *arrays),
                "onnxruntime": partial(session.run, None, feed),
                "torch": partial(network, *inputs),
            }
            error = _difference(sides["structir"](), sides["onnxruntime"]())
            if options.processor:
                del sides["onnxruntime"]
            rows.append({"size": size, "error": error, **_seconds(sides, options.threads)})
    return rows


def _compiled(torch: Any, network: Any, inputs: Any, path: str, options: Any) -> Any:
    """Exports a network, also as an ONNX file; returns the compiled function."""
    structir = importlib.import_module("structir")
    axes = (0, 1) if inputs[0].dtype == torch.int64 else (0,)
    shapes = (dict.fromkeys(axes, torch.export.Dim.AUTO),)
    exported = torch.onnx.export(network, inputs, dynamic_shapes=shapes, dynamo=True, verbose=False)
    exported.save(path)
    if options.precision == "int8":
        quantization = importlib.import_module("onnxruntime.quantization")
        quantization.quantize_dynamic(path, path, weight_type=quantization.QuantType.QInt8)
        module = importlib.import_module("structir.frontend.onnx").from_onnx(path)
    else:
        program = torch.export.export(network, inputs, dynamic_shapes=shapes)
        module = importlib.import_module("structir.frontend.torch").from_exported_program(program)
    return structir.compile(module, num_threads=options.threads)["main"]


def _session(path: str, options: argparse.Namespace) -> Any:
    onnxruntime = importlib.import_module("onnxruntime")
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.log_severity_level = 4
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def _difference(results: Any, reference: Any) -> float:
    """Returns the largest difference relative to the largest element of the reference."""
    result = np.asarray(results[0] if isinstance(results, tuple | list) else results)
    scale = float(np.abs(reference[0]).max()) or 1.0
    return float(np.abs(result - reference[0]).max()) / scale


def _seconds(sides: Mapping[str, Callable[[], Any]], threads: int) -> dict[str, float]:
    """Returns the time of a call of each side: medians of CPU time with one thread, else shortest
    elapsed times."""
    clock = time.process_time if threads == 1 else time.perf_counter
    samples: dict[str, list[float]] = {side: [] for side in sides}
    for call in (*sides.values(), *sides.values()):
        call()
    for round_number in range(ROUNDS):
        for side in list(sides)[:: 1 if round_number % 2 else -1]:
            if threads > 1:
                time.sleep(0.01)  # the idle threads of the other side fall asleep
            calls, start = 0, clock()
            while clock() - start < BURST:
                sides[side]()
                calls += 1
            samples[side].append((clock() - start) / calls)
    pick = statistics.median if threads == 1 else min
    return {side: pick(values) for side, values in samples.items()}


# ---- all models


def run_child(name: str, options: argparse.Namespace) -> tuple[list[dict[str, Any]], str]:
    """Returns the rows of a model, measured in a child process, or the last line of its error."""
    environment = os.environ | {f"{each}_NUM_THREADS": str(options.threads) for each in THREADS}
    paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    if options.processor:
        environment |= AVX2 | {"NUMBA_CPU_NAME": options.processor}
    command = [sys.executable, __file__, *sys.argv[1:], "--child", name]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        return [], (run.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(run.stdout.splitlines()[-1]), ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="parts of the names, separated by commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="float32", choices=("float32", "int8"))
    parser.add_argument("--processor", default="", help="the CPU that code is generated for")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        with contextlib.redirect_stdout(sys.stderr):
            rows = measure(options.child, options)
        print(json.dumps(rows))
        return
    print(f"| {processor()}, {options.threads} threads | size | StructIR | ONNX Runtime | torch |")
    print("|---|---|---|---|---|")
    names = [n for n in models() if any(word in n for word in options.only.split(","))]
    for name in names:
        rows, message = run_child(name, options)
        for row in rows:
            ours = row["structir"]
            cells = [f"{row[s] / ours:.2f}" if s in row else "" for s in ("onnxruntime", "torch")]
            size = " x ".join(map(str, row["size"]))
            print(f"| {name} | {size} | {ours * 1e3:.3g} ms | {' | '.join(cells)} |", flush=True)
            if row["error"] > TOLERANCE[options.precision]:
                print(f"{name}: differs from ONNX Runtime by {row['error']:.2g}", file=sys.stderr)
        if message:
            print(f"{name}: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
