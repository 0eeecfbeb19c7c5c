"""The machine that a benchmark runs on, and the environment that its brokers get."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from harness.kafka_jars import KAFKA_VERSION, cache_root


def machine() -> dict[str, Any]:
    """What the results say of the machine: time, processor, versions, load average."""
    model = next(
        (
            row.partition(":")[2].strip()
            for row in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in row
        ),
        platform.processor(),
    )
    return {
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.release(),
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "load_average": os.getloadavg(),
    }


def compiled_modules() -> None:
    """Let the brokers find their modules compiled, as after an installation, whatever the environment here says."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(cache_root() / "compiled")
