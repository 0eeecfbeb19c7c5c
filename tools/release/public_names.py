"""Use the public names of an installed kwire, and print them as JSON: names that do not move from release to release.

Run by `tools.release` with the Python of a fresh environment in which only the wheel, pytest and kafka-python are
installed; so this imports nothing of the source tree. What it prints is compared with `public_names.json`.
"""

from __future__ import annotations

import asyncio
import json
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

READY_LINE = re.compile(r"kwire ready bootstrap=(\S+:\d+) pid=(\d+)\n")
COMMAND = str(Path(sys.executable).parent / "kwire")
TIMEOUT_S = 60.0
TEST_OF_A_USER = """
from kafka import KafkaConsumer, KafkaProducer


def test_a_record_arrives(kwire, kwire_proc):
    assert kwire.bootstrap_servers == kwire_proc.bootstrap_servers
    topic = kwire.topic("orders")
    producer = KafkaProducer(bootstrap_servers=kwire.bootstrap_servers)
    assert producer.send(topic, b"hello").get(timeout=10).offset == 0
    producer.close()
"""


def run(*command: str, cwd: str | None = None) -> str:
    """The standard output of a command that must succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def python_names() -> dict[str, list[str]]:
    """The names that `kwire` and `kwire.testing` export, with the public attributes of the classes."""
    import kwire
    import kwire.testing

    found = {"kwire": sorted(kwire.__all__), "kwire.testing": sorted(kwire.testing.__all__)}
    for name in kwire.testing.__all__:
        attributes = (each for each in vars(getattr(kwire.testing, name)) if not each.startswith("_"))
        found[f"kwire.testing.{name}"] = sorted(attributes)
    from kwire.testing import factories

    found["kwire.testing.factories"] = sorted(
        name for name in ("kwire", "kwire_noproc", "kwire_proc") if callable(getattr(factories, name))
    )
    return found


async def broker_in_one_process(home: Path) -> None:
    """`kwire.Broker` starts, names its address and stops."""
    import kwire

    async with kwire.Broker(listeners="PLAINTEXT://localhost:0", log_dirs=str(home / "embedded")) as broker:
        assert re.fullmatch(r"localhost:\d+", broker.bootstrap_servers), broker.bootstrap_servers


def plugin_names(home: Path) -> dict[str, list[str]]:
    """The fixtures and options of the pytest plugin; one test uses the fixtures."""
    (home / "test_user.py").write_text(TEST_OF_A_USER)
    output = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_user.py", cwd=str(home))
    assert "1 passed" in output, output
    fixtures = run(sys.executable, "-m", "pytest", "--fixtures", "-q", "-p", "no:cacheprovider", cwd=str(home))
    options = run(sys.executable, "-m", "pytest", "--help", cwd=str(home))
    return {
        "fixtures": sorted(set(re.findall(r"^(kwire\w*)\b.* -- ", fixtures, re.M))),
        "options": sorted(set(re.findall(r"--kwire-[\w-]+|(?<=^  )kwire_\w+", options, re.M))),
    }


def command_names() -> dict[str, list[str]]:
    """The subcommands of `kwire`, and the options of each."""
    assert re.fullmatch(r"kwire \d+\.\d+\.\d+\S*\n", run(COMMAND, "--version"))
    assert run(COMMAND, "--version") == run(sys.executable, "-m", "kwire", "--version")
    listed = re.findall(r"^    ([a-z][a-z-]*)(?:\s|$)", run(COMMAND, "--help"), re.M)
    found = {"kwire": sorted(listed)}
    for name in listed:
        found[f"kwire {name}"] = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", run(COMMAND, name, "--help"))))
    return found


class Started:
    """`python -m kwire start`: a broker of its own process, as users start it."""

    def __init__(self, home: Path) -> None:
        self.data_dir = home / "data"
        self.log = home / "broker.log"
        command = [sys.executable, "-m", "kwire", "start", "--listen", "127.0.0.1:0", "--data-dir", str(self.data_dir)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_S)
        line = self.process.stdout.readline() if readable else ""
        ready = READY_LINE.fullmatch(line)
        assert ready is not None, f"ready line: {line!r}\n{self.log.read_text()}"
        assert int(ready[2]) == self.process.pid
        self.bootstrap = ready[1]

    def metrics(self) -> list[str]:
        """The names of the metrics in SIGUSR1's dump, without the values of their tags."""
        self.process.send_signal(signal.SIGUSR1)
        end = time.monotonic() + TIMEOUT_S
        while '"event": "dump complete"' not in self.log.read_text():
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return sorted({without_values(line["name"]) for line in lines if line["event"] == "metric"})

    def stop(self) -> None:
        """SIGTERM ends it with status 0, and the ready line was all of its standard output."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=TIMEOUT_S)
        assert (self.process.returncode, output) == (0, ""), (self.process.returncode, output)


def without_values(metric: str) -> str:
    """``kafka.log:type=Log,name=Size,topic=t`` -> ``kafka.log:type=Log,name=Size,topic``."""
    domain, _, tags = metric.partition(":")
    kept = (tag if tag.startswith(("type=", "name=")) else tag.partition("=")[0] for tag in tags.split(","))
    return f"{domain}:{','.join(kept)}"


def use(bootstrap: str) -> list[str]:
    """Produce, consume in a group, commit; return the names of the broker's `kwire.` properties."""
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    assert producer.send("orders", b"hello").get(timeout=30).offset == 0
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest")
    assert next(consumer).value == b"hello"
    consumer.commit()
    consumer.close()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    resource = ConfigResource(ConfigResourceType.BROKER, "1")
    described: Any = admin.describe_configs([resource], config_filter="all")["broker"]["1"]
    admin.close()
    own = sorted(name for name in described if name.startswith("kwire."))
    assert own, described
    return own


def json_keys(output: str) -> list[str]:
    """The keys of all the objects in the lines of a command's output."""
    return sorted({key for line in output.splitlines() for key in json.loads(line)})


def main() -> None:
    """Print all public names as JSON."""
    with tempfile.TemporaryDirectory(prefix="kwire-names-") as name:
        home = Path(name)
        names: dict[str, Any] = {"python": python_names(), "commands": command_names()}
        asyncio.run(broker_in_one_process(home))
        names["pytest"] = plugin_names(home)
        broker = Started(home)
        try:
            assert run(COMMAND, "ping", broker.bootstrap)
            names["properties"] = use(broker.bootstrap)
            names["metrics"] = broker.metrics()
        finally:
            broker.stop()
        segments = [str(each) for each in broker.data_dir.glob("*/*.log") if each.stat().st_size]
        names["json"] = {
            "dump-log": json_keys(run(COMMAND, "dump-log", "--json", *segments)),
            "verify-log": json_keys(run(COMMAND, "verify-log", "--json", str(broker.data_dir))),
        }
    print(json.dumps(names, indent=1))


if __name__ == "__main__":
    main()
