"""The scripts of a Kafka distribution that kafka-python's fixtures call, for both brokers.

The fixtures write a broker's properties and its JAAS file, call ``kafka-storage.sh format`` (with the first SCRAM user)
and start the broker. `write` makes a folder with these scripts; each runs this module, whose `command` says what takes
its place: Apache Kafka's program, or kwire's command for the same. Kafka's tools are Kafka's for both.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from harness.kafka_jars import java_command, kafka_classpath

REPOSITORY = Path(__file__).resolve().parents[3]
MODULE = "compat_tests.suites.kafka_python.distribution"
SCRIPTS = ("kafka-run-class.sh", "kafka-storage.sh", "kafka-topics.sh")
_TELLS = "-Dkafka.log.level=INFO"  # the fixtures look for Kafka's own words that it has started
_JAAS_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_USER = re.compile(r"(?P<mechanism>[\w-]+)=\[name=(?P<name>[^,]+),password=(?P<password>[^]]+)\]")


def write(folder: Path, kind: str) -> None:
    """Write the scripts for a kind of broker ("kafka" or "kwire") into the folder ``bin``."""
    (folder / "bin").mkdir(parents=True)
    for name in SCRIPTS:
        words = shlex.join([sys.executable, "-m", MODULE, kind, name])
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(REPOSITORY))} exec {words} "$@"\n')
        script.chmod(0o755)


def command(kind: str, script: str, arguments: list[str], java_options: str) -> list[str]:
    """What a script runs. ``java_options``: the value of KAFKA_OPTS."""
    if script == "kafka-topics.sh":
        return _java(["org.apache.kafka.tools.TopicCommand", *arguments], java_options)
    if script == "kafka-storage.sh":
        words = ["kafka.tools.StorageTool", *arguments]
        return _java(words, java_options) if kind == "kafka" else _kwire_format(arguments)
    return _java(arguments, f"{java_options} {_TELLS}") if kind == "kafka" else _kwire_start(arguments, java_options)


def _java(words: list[str], options: str) -> list[str]:
    return java_command("-cp", kafka_classpath(), *words, options=shlex.split(options))


def _kwire_start(arguments: list[str], java_options: str) -> list[str]:
    """``kafka.Kafka FILE``."""
    words = [sys.executable, "-m", "kwire", "start", arguments[-1]]
    jaas = _JAAS_FILE.search(java_options)
    return [*words, "--set", f"kwire.jaas.config.file={jaas[1]}"] if jaas else words


def _kwire_format(arguments: list[str]) -> list[str]:
    """``format ... -c FILE [--add-scram MECHANISM=[name=...,password=...]]``: kwire needs nothing but the user."""
    if "--add-scram" not in arguments:
        return ["true"]
    user = _USER.fullmatch(arguments[arguments.index("--add-scram") + 1])
    assert user, arguments
    words = [sys.executable, "-m", "kwire", "user", "add", user["name"], "--password", user["password"]]
    return [*words, "--mechanism", user["mechanism"], "--config", arguments[arguments.index("-c") + 1]]


if __name__ == "__main__":
    wanted = command(sys.argv[1], sys.argv[2], sys.argv[3:], os.environ.get("KAFKA_OPTS", ""))
    if sys.argv[2] == "kafka-run-class.sh":
        os.execvp(wanted[0], wanted)  # the fixtures end the broker by this process's id
    sys.exit(subprocess.run(wanted, check=False).returncode)
