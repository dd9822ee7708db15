"""The number of physical cores that the process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")
CONTROLLERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")  # where version 1 of cgroups is mounted


def physical_cores(root: Path = ROOT) -> int:
    """Returns the physical cores in the CPU affinity of the process, within its cgroup's limit."""
    return max(1, min([len(_cores(root)), *map(int, _limits(root))]))


def _cores(root: Path) -> set[str]:
    """Returns the names of the physical cores: two CPUs of one core have the same siblings."""
    if not hasattr(os, "sched_getaffinity"):
        return {str(cpu) for cpu in range(os.cpu_count() or 1)}
    cpus = root / "sys/devices/system/cpu"
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = str(cpu)
        with suppress(OSError):
            siblings = (cpus / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
        cores.add(siblings)
    return cores


def _limits(root: Path) -> Iterator[float]:
    """Yields the limits of CPU time of the process's cgroup and of those that contain it, in CPUs.

    In a container the path of the group may be that of the host: the mounted root is read too.
    """
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            relative = Path(path.lstrip("/"))
            for group in (relative, *relative.parents):
                yield from _limits_of(root / "sys/fs/cgroup", controllers, group)


def _limits_of(mounted: Path, controllers: str, group: Path) -> Iterator[float]:
    with suppress(OSError, ValueError):
        if not controllers:
            quota, period = (mounted / group / "cpu.max").read_text().split()
            yield float(quota) / float(period)  # "max" is no number: no limit
        elif "cpu" in controllers.split(","):
            for name in CONTROLLERS:
                with suppress(OSError):
                    yield from _limit_of_version_1(mounted / name / group)


def _limit_of_version_1(folder: Path) -> Iterator[float]:
    quota = float((folder / "cpu.cfs_quota_us").read_text())
    if quota > 0:
        yield quota / float((folder / "cpu.cfs_period_us").read_text())
