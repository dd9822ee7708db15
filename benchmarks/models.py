"""Measures whole models of torchvision, timm and transformers against ONNX Runtime and torch eager.

    python benchmarks/models.py --only bert,lstm
    python benchmarks/models.py --threads 2 --precision int8

Needs torch, torchvision, timm, transformers and onnxscript. The models have the widths of their
published configurations, two layers where they repeat, and random weights. Each is exported once by
`torch.export` for StructIR and by `torch.onnx.export` for ONNX Runtime. The sides are called in
turn in one process. With one thread the figure is CPU time, else elapsed time; both are medians.
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
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

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
        return _FirstResult()(transformers.AutoModel.from_config(configuration))

    return build


def _FirstResult() -> Any:
    """Returns a module class that keeps only the first result of a model."""
    nn = importlib.import_module("torch").nn

    class FirstResult(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            results = self.model(x)
            return results[0] if isinstance(results, tuple) else next(iter(results.values()))

    return FirstResult


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


def models() -> dict[str, Model]:
    """Returns the models by name."""
    two = {"num_hidden_layers": 2, "vocab_size": 1000}
    wide = two | {"hidden_size": 512, "intermediate_size": 1408, "num_attention_heads": 8}
    small = {"vocab_size": 1000, "num_layers": 2}
    texts: dict[str, tuple[str, dict[str, Any]]] = {
        "bert": ("bert", two),
        "distilbert": ("distilbert", {"n_layers": 2, "vocab_size": 1000}),
        "roberta": ("roberta", two),
        "electra": ("electra", two),
        "mpnet": ("mpnet", two),
        "modernbert": ("modernbert", two | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}),
        "gpt2": ("gpt2", {"n_layer": 2, "vocab_size": 1000}),
        "gpt_neox": ("gpt_neox", wide),
        "llama": ("llama", wide | {"num_key_value_heads": 8}),
        "qwen3": ("qwen3", wide | {"num_key_value_heads": 4, "head_dim": 64}),
        "gemma": ("gemma", wide | {"num_key_value_heads": 2, "head_dim": 64, "pad_token_id": 0}),
        "opt": ("opt", {"num_hidden_layers": 2, "vocab_size": 1000}),
        "t5 encoder": ("t5", small),
    }
    result = {
        name: Model("transformer", _transformer(kind, fields), _tokens, TEXT_SIZES)
        for name, (kind, fields) in texts.items()
        if name != "t5 encoder"
    }
    for name in ("vit_tiny_patch16_224", "deit_small_patch16_224", "swin_tiny_patch4_window7_224"):
        result[name] = Model("transformer", _image_model("timm", name), _images, IMAGE_SIZES[:1])
    recurrent: dict[str, tuple[str, dict[str, Any]]] = {
        "lstm": ("LSTM", {}),
        "lstm, 2 layers": ("LSTM", {"num_layers": 2}),
        "lstm, bidirectional": ("LSTM", {"bidirectional": True}),
        "gru": ("GRU", {}),
        "rnn": ("RNN", {}),
    }
    for name, (kind, options) in recurrent.items():
        result[name] = Model("recurrent", _recurrent(kind, **options), _sequences, SEQUENCE_SIZES)
    for name in "resnet18 resnet50 squeezenet1_1 mobilenet_v2 mobilenet_v3_small vgg11".split():
        result[name] = Model("convnet", _image_model("torchvision", name), _images, IMAGE_SIZES)
    for name in "efficientnet_b0 densenet121 shufflenet_v2_x1_0 regnet_y_400mf convnext_tiny".split():
        result[name] = Model("convnet", _image_model("torchvision", name), _images, IMAGE_SIZES[:1])
    return result


# ---- one model, in a child process


def measure(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the times of each side at each size of a model, in seconds."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = models()[name]
    network = model.build().eval()
    rows = []
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        example = model.inputs(2, model.sizes[-1][1])
        axes = (0, 1) if example[0].ndim == 2 else (0,)
        run = _compiled(torch, network, example, axes, path, options)
        session = _session(path, options)
        for size in model.sizes:
            inputs = model.inputs(*size)
            arrays = [each.numpy() for each in inputs]
            feed = dict(zip([i.name for i in session.get_inputs()], arrays, strict=True))
            sides = {
                "structir": lambda: run(*arrays),  # noqa: B023
                "torch": lambda: network(*inputs),  # noqa: B023
                "onnxruntime": lambda: session.run(None, feed),  # noqa: B023
            }
            error = _difference(sides["structir"](), sides["onnxruntime"]())
            if options.processor:
                del sides["onnxruntime"]
            rows.append({"size": size, "error": error, **_medians(sides, options.threads)})
    return rows


def _compiled(torch: Any, network: Any, example: Any, axes: Any, path: str, options: Any) -> Any:
    structir = importlib.import_module("structir")
    shapes = (dict.fromkeys(axes, torch.export.Dim.AUTO),)
    onnx_program = torch.onnx.export(
        network, example, dynamic_shapes=shapes, dynamo=True, verbose=False
    )
    onnx_program.save(path)
    if options.precision == "int8":
        quantization = importlib.import_module("onnxruntime.quantization")
        quantization.quantize_dynamic(path, path, weight_type=quantization.QuantType.QInt8)
        module = importlib.import_module("structir.frontend.onnx").from_onnx(path)
    else:
        program = torch.export.export(network, example, dynamic_shapes=shapes)
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
    numpy = importlib.import_module("numpy")
    result = numpy.asarray(results[0] if isinstance(results, tuple | list) else results)
    scale = float(numpy.abs(reference[0]).max()) or 1.0
    return float(numpy.abs(result - reference[0]).max()) / scale


def _medians(sides: Mapping[str, Callable[[], Any]], threads: int) -> dict[str, float]:
    clock = time.process_time if threads == 1 else time.perf_counter
    samples: dict[str, list[float]] = {side: [] for side in sides}
    for call in sides.values():
        call(), call()
    for round_number in range(ROUNDS):
        order = list(sides) if round_number % 2 else list(sides)[::-1]
        for side in order:
            if threads > 1:
                time.sleep(0.01)  # the threads of the other side fall asleep
            calls, start = 0, clock()
            while clock() - start < BURST:
                sides[side]()
                calls += 1
            samples[side].append((clock() - start) / calls)
    pick = statistics.median if threads == 1 else min
    return {side: pick(values) for side, values in samples.items()}


# ---- all models


def run_child(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the rows of a model, measured in a child process."""
    environment = os.environ | {f"{each}_NUM_THREADS": str(options.threads) for each in THREADS}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    if options.processor:
        environment |= AVX2 | {"NUMBA_CPU_NAME": options.processor}
    command = [sys.executable, __file__, *sys.argv[1:], "--child", name]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        return [{"error": run.stderr.strip().splitlines()[-1][:120] if run.stderr else "failed"}]
    rows: list[dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="parts of the names, separated by commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="float32", choices=list(TOLERANCE))
    parser.add_argument("--processor", default="", help="the CPU that code is generated for")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        with contextlib.redirect_stdout(sys.stderr):
            rows = measure(options.child, options)
        print(json.dumps(rows))
        return
    console = Console(width=120)
    words = options.only.split(",")
    for name, model in models().items():
        if not any(word in name for word in words):
            continue
        for row in run_child(name, options):
            if isinstance(row["error"], str):
                console.print(f"{name:30} {row['error']}")
                continue
            ours = row["structir"]
            text = "  ".join(f"{side} {row[side] / ours:5.2f}" for side in ("onnxruntime", "torch") if side in row)
            console.print(f"{model.kind:12}{name:30} {str(tuple(row['size'])):10} {ours * 1e3:9.3f} ms  {text}  error {row['error']:.1e}")
    console.print(processor())


if __name__ == "__main__":
    main()
