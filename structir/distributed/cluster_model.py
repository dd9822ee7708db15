"""The parameters of simulated workers, and the time of an exchange between them."""

from __future__ import annotations

from math import ceil, log2

import attrs


@attrs.frozen
class ClusterModel:
    """Workers with equal links.

    A worker receives `bandwidth` bytes per second. A message from several peers takes `latency`
    seconds for each doubling of their number, as in a tree. A worker computes `flops` operations
    per second; the operations of an op are those of its body at all points of its loops.
    """

    bandwidth: float = 12.5e9
    latency: float = 10e-6
    flops: float = 1e12

    def transfer_time(self, received: float, peers: int) -> float:
        """Returns the seconds in which a worker receives bytes from a number of peers."""
        if not peers:
            return 0.0
        return received / self.bandwidth + self.latency * ceil(log2(peers + 1))

    def compute_time(self, operations: float) -> float:
        """Returns the seconds of a number of operations."""
        return operations / self.flops
