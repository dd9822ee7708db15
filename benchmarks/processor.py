"""Returns the name of the processor, for the tables of `docs/performance.md`."""

import platform
from pathlib import Path


def processor() -> str:
    """Returns the model name of the processor, or the machine type if the system lacks it."""
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.exists():
        for line in cpu_info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()
