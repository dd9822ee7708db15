"""Random programs in shards, on 1 to 4 workers: the results of whole programs, or an error with a
code before the run.

Others: `structir fuzz --check shards --check mesh --seed 1000 --programs 3000`.
"""

import pytest

from structir.tools.checks import run_check
from structir.tools.fuzzing import random_program

CHUNKS, SEEDS = 24, 6  # a chunk is one test, so that workers share the work


@pytest.mark.sampled(4)
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("check", ["shards", "mesh"])
def test_shards_return_the_result_of_the_whole(check: str, chunk: int) -> None:
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        try:
            run_check(check, random_program(seed, 6), seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_a_call_of_a_closure_that_is_not_inlined() -> None:
    run_check("shards", random_program(300831, 6), 300831)
