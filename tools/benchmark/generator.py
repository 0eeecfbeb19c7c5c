"""Compiling and running the load generator (`load.c`) against a broker, with the broker's processor time beside it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from harness.kafka_jars import cache_root
from tools.benchmark import frames
from tools.benchmark.targets import Target, Topic

SOURCE = Path(__file__).with_name("load.c")


class LoadFailed(Exception):
    """The load generator has failed; the message is its output."""


def generator() -> Path:
    """The compiled generator, made with gcc on first use."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    program = cache_root() / f"load-{digest}"
    if not program.exists():
        cache_root().mkdir(parents=True, exist_ok=True)
        partial = program.with_suffix(".partial")
        subprocess.run(["gcc", "-O2", "-Wall", "-o", str(partial), str(SOURCE)], check=True)
        partial.rename(program)
    return program


def run(
    target: Target, templates: list[frames.Template] | None = None, topic: Topic | None = None, **options: int
) -> dict[str, Any]:
    """Run the generator; return its report, with ``cpu_s`` that the broker used meanwhile. Raises `LoadFailed`."""
    words = [f"{name}={value}" for name, value in options.items()]
    words.append(f"port={target.port}")
    if topic is not None:
        words += [f"topic={topic.id.hex()}", f"partitions={topic.partitions}"]
    with tempfile.NamedTemporaryFile(prefix="kwire-frames-") as file:
        if templates is not None:
            frames.write(Path(file.name), templates)
            words.append(f"frames={file.name}")
        process = subprocess.Popen(
            [str(generator()), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdin and process.stdout and process.stderr
            if process.stdout.readline() != "ready\n":
                raise LoadFailed(process.stderr.read().strip())
            before = target.cpu_s()
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline()
            used = target.cpu_s() - before
            if not line:
                raise LoadFailed(f"{target.kind}: {process.stderr.read().strip()}")
            process.stdin.close()
    result: dict[str, Any] = json.loads(line)
    result["cpu_s"] = used
    return result
