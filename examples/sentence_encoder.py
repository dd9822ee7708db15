"""The demo: a sentence encoder, compiled once, encodes batches of any size and any length.

The program is in `minilm_program.py`; `minilm_files.py` reads its weights and its tokenizer.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import minilm_numpy
import structir
from minilm_files import Tokens, Weights, load_tokenizer, load_weights, model_folder, tokens_of
from minilm_program import minilm_text

SENTENCES = (
    "A man is playing the guitar on a stage.",
    "Someone performs music in front of an audience.",
    "The cat sleeps on the warm windowsill.",
    "A kitten naps in the sunshine.",
    "The central bank raised interest rates again.",
    "Borrowing money has become more expensive this year.",
)
PARAGRAPH = " ".join(SENTENCES)
BATCHES = (SENTENCES[:1], SENTENCES, (PARAGRAPH,), (PARAGRAPH,) * 8)
REPEATS = 9
PROGRESS = Console(stderr=True)  # shows nothing unless it is a terminal

Floats = NDArray[np.floating[Any]]
Encoder = Callable[[Tokens, Tokens], tuple[Floats, Floats]]


class Times(NamedTuple):
    """CPU seconds per batch of the compiled program and of NumPy, op by op."""

    compiled: float
    numpy: float


def with_weights(main: Callable[..., tuple[Floats, Floats]], weights: Weights) -> Encoder:
    """Returns `main` with its weights bound."""
    values = tuple(weights.values())
    return lambda input_ids, attention_mask: main(input_ids, attention_mask, *values)


def numpy_encoder(weights: Weights) -> Encoder:
    return lambda input_ids, mask: minilm_numpy.encode(input_ids, mask, weights)


def seconds(encode: Encoder, tokens: tuple[Tokens, Tokens]) -> float:
    """Returns the CPU time of one call; other processes affect it less than wall-clock time."""
    start = time.process_time()
    encode(*tokens)
    return time.process_time() - start


def measure(compiled: Encoder, numpy: Encoder, tokens: tuple[Tokens, Tokens]) -> Times:
    """Returns medians of alternating runs on one thread."""
    with threadpool_limits(1):
        runs = [(seconds(compiled, tokens), seconds(numpy, tokens)) for _ in range(REPEATS)]
    return Times(*np.median(runs, axis=0))


def similarity_table(sentences: Sequence[str], embeddings: Floats) -> Table:
    table = Table(title="How alike the sentences are (cosine of their embeddings)")
    table.add_column("sentence")
    for number in range(1, len(sentences) + 1):
        table.add_column(str(number), justify="right")
    for number, (sentence, row) in enumerate(
        zip(sentences, embeddings @ embeddings.T, strict=True)
    ):
        table.add_row(f"{number + 1}  {sentence}", *(f"{value:.2f}" for value in row))
    return table


def report(
    console: Console, compiled: Encoder, numpy: Encoder, batches: list[tuple[Tokens, Tokens]]
) -> None:
    for number, tokens in enumerate(batches, start=1):
        batch, seq = tokens[0].shape
        with PROGRESS.status(f"timing batch {number} of {len(batches)}"):
            apart = np.abs(compiled(*tokens)[1] - numpy(*tokens)[1]).max()
            times = measure(compiled, numpy, tokens)
        console.print(
            f"batch {batch}, seq {seq}: compiled {times.compiled * 1e3:.1f} ms, "
            f"NumPy op by op {times.numpy * 1e3:.1f} ms, "
            f"{times.numpy / times.compiled:.2f}x faster, largest difference {apart:.1e}",
            soft_wrap=True,
        )


def main() -> None:
    console = Console()
    with PROGRESS.status("fetching the model, if it is not cached"):
        folder = model_folder()
    with PROGRESS.status("loading the weights"):
        weights, tokenizer = load_weights(folder), load_tokenizer(folder)
    start = time.process_time()  # the compiler shows its own progress
    module = structir.parse(minilm_text(), filename="minilm")
    executable = structir.compile(module, num_threads=1)
    spent = time.process_time() - start
    compiled, numpy = with_weights(executable["main"], weights), numpy_encoder(weights)
    _, embeddings = compiled(*tokens_of(tokenizer, SENTENCES))
    console.print(similarity_table(SENTENCES, embeddings))
    report(console, compiled, numpy, [tokens_of(tokenizer, batch) for batch in BATCHES])
    console.print(
        f"compiled {executable.compile_count} time, in {spent:.2f} s, for all batches; "
        "CPU times of one thread"
    )


if __name__ == "__main__":
    main()
