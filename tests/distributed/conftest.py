"""One Dask cluster of four worker processes for the tests of a file."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    method = {"distributed.worker.multiprocessing-method": "forkserver"}
    with dask.config.set(method):
        # workers are forked from one process that has imported the package and the compiler
        context = distributed.utils.get_mp_context()
        context.set_forkserver_preload(["distributed", "structir.distributed.mesh_worker", "numba"])
        with (
            distributed.LocalCluster(
                n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as result,
        ):
            yield result
