"""Compiling and running the load generator (`load.c`) against a broker, with the broker's processor time beside it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.kafka_jars import cache_root
from tools.benchmark import frames
from tools.benchmark.targets import Target, Topic

SOURCE = Path(__file__).with_name("load.c")


class LoadFailed(Exception):
    """The load generator has failed; the message is its output."""


WITH_TLS = ("-DTLS", "-lssl", "-lcrypto")


def generator(tls: bool = False) -> Path:
    """The compiled generator; with TLS it needs OpenSSL's headers. Raises `LoadFailed`."""
    return compiled(SOURCE, "-tls", *WITH_TLS) if tls else compiled(SOURCE)


def compiled(source: Path, variant: str = "", *options: str) -> Path:
    """A program made of one C file, with gcc on first use. ``variant`` tells programs of the same file apart. Raises
    `LoadFailed`."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    program = cache_root() / f"{source.stem}{variant}-{digest}"
    if not program.exists():
        cache_root().mkdir(parents=True, exist_ok=True)
        partial = program.with_suffix(".partial")
        command = ["gcc", "-O2", "-Wall", "-o", str(partial), str(source), *options]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise LoadFailed(f"gcc failed; it needs libc6-dev, and libssl-dev for TLS (Debian)\n{done.stderr.strip()}")
        partial.rename(program)
    return program


def run(
    target: Target,
    templates: list[frames.Template] | None = None,
    topic: Topic | None = None,
    *,
    port: int | Sequence[int] | None = None,
    tls: int = 0,
    **options: int,
) -> dict[str, Any]:
    """Run the generator; return its report, with ``cpu_s`` that the broker used meanwhile. Raises `LoadFailed`.
    Options are those of `load.c`; ``port`` is the target's, if no other is given; several are those of the
    templates."""
    words = [f"{name}={value}" for name, value in ({"tls": tls} | options).items()]
    if isinstance(port, Sequence):
        words.append("ports=" + ",".join(map(str, port)))
    else:
        words.append(f"port={port or target.port}")
    if topic is not None:
        words += [f"topic={topic.id.hex()}", f"partitions={topic.partitions}"]
    program = generator(tls=tls != 0)
    with tempfile.NamedTemporaryFile(prefix="kwire-frames-") as file:
        if templates is not None:
            frames.write(Path(file.name), templates)
            words.append(f"frames={file.name}")
        process = subprocess.Popen(
            [str(program), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # as the brokers: where sessions share processors (autogroup), theirs are equals
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
