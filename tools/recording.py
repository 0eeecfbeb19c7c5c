"""Write recordings of commands with what they really print: `docs/images/terminal.svg` has the first commands of
README.md, `docs/images/sql.svg` queries of docs/SQL.md, `docs/images/archive.svg` an archive of docs/ARCHIVE.md,
`docs/images/backup.svg` a backup of docs/BACKUP.md.

    .venv/bin/python -m tools.recording

It starts a broker for each of `RECORDINGS`, runs its commands one after the other, and draws their lines as an
animated SVG without scripts or fonts of its own. `compat_tests/documents/test_documents.py` runs the
commands again and compares.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker
from harness.registries.process import Registry

PICTURES: Final = ROOT / "docs" / "images"
ADDRESS: Final = "localhost:9092"
DATA_DIR: Final = "/var/lib/kwire"
"""Stands for the directory of the broker that a recording has."""
READY: Final = "kwire ready bootstrap=localhost:9092 pid=4711"
REGISTRY_READY: Final = "kwire registry ready url=http://127.0.0.1:8081"

_LINE: Final = 19
_LEFT: Final = 16
_TOP: Final = 46
_COLUMN: Final = 7.83
_SECONDS_BEFORE_COMMAND: Final = 1.4
_SECONDS_BEFORE_OUTPUT: Final = 0.5
_STYLE: Final = """\
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d4d8e0;
  white-space: pre; }
.command { fill: #ffffff; font-weight: bold; }
.line { opacity: 0; animation: appear .01s linear forwards; }
@keyframes appear { to { opacity: 1; } }
@media (prefers-reduced-motion: reduce) { .line { opacity: 1; animation: none; } }
"""


class Recording(NamedTuple):
    """Commands, and the picture of them."""

    picture: Path
    title: str
    commands: tuple[str, ...]
    registry: bool = False
    """Whether a schema registry is started first."""


RECORDINGS: Final = (
    Recording(
        PICTURES / "terminal.svg",
        "A broker, a topic and its records in a terminal",
        (
            "kwire topic create orders --partitions 3",
            r"printf 'alice:12\nbob:7\n' | kwire produce orders -k :",
            r"kwire consume orders --until-end -f '%k paid %v\n'",
            "kwire topic describe orders",
            "kwire cluster status",
        ),
    ),
    Recording(
        PICTURES / "sql.svg",
        "Queries of a topic in a terminal",
        (
            "kwire topic create orders",
            """for i in $(seq 90); do echo "{\\"region\\": \\"r$((i % 3))\\", \\"amount\\": $i}"; done | """
            "kwire produce orders",
            "kwire sql \"select value->>'region' as region, count(*), sum((value->>'amount')::int) as amount "
            'from orders group by 1 order by 1"',
            """kwire sql -o json 'select value, "offset" from orders limit 2'""",
            "kwire sql --stats 'select count(*) as n from orders where \"offset\" between 40 and 49' 2>&1",
        ),
    ),
    Recording(
        PICTURES / "archive.svg",
        "A topic archived and restored in a terminal",
        (
            "kwire topic create orders --partitions 2",
            """for i in $(seq 90); do echo "k$i:{\\"region\\": \\"r$((i % 3))\\"}"; done | kwire produce orders -k :""",
            "kwire archive orders --to parquet --path orders --until-end",
            "ls orders",
            "echo 'k91:{}' | kwire produce orders -k :",
            "kwire archive orders --to parquet --path orders --until-end -o jsonl",
            "kwire restore orders --topic orders-again",
            "kwire consume orders-again -p 1 --until-end -f '%p %k %v\\n' | head -n 3",
        ),
    ),
    Recording(
        PICTURES / "backup.svg",
        "A broker's data backed up and restored in a terminal",
        (
            "kwire topic create orders --partitions 3",
            """for i in $(seq 90); do echo "k$i:order $i"; done | kwire produce orders -k :""",
            f"until [ $(awk '/orders/ {{n+=$3}} END {{print n}}' {DATA_DIR}/replication-offset-checkpoint) = 90 ]; do "
            "sleep 1; done",
            f"kwire backup create --data-dir {DATA_DIR} --to ./backups",
            f"kwire backup create --data-dir {DATA_DIR} --to ./backups",
            "ls backups backups/segments",
            "kwire backup restore ./backups --data-dir ./again",
            "cat again/replication-offset-checkpoint",
        ),
    ),
    Recording(
        PICTURES / "registry.svg",
        "Schemas registered, checked and stored in a terminal",
        (
            """echo '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}' > order.avsc""",
            "kwire schema register orders-value order.avsc",
            """echo '{"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}' """
            "> other.avsc",
            "kwire schema check orders-value other.avsc | cut -c 1-104",
            """sed 's/"int"}/"int", "default": 0}/' other.avsc > wider.avsc""",
            "kwire schema check orders-value wider.avsc && kwire schema register orders-value wider.avsc",
            "kwire schema list",
            "kwire consume _schemas --until-end -f '%k\\n'",
        ),
        registry=True,
    ),
)


class Step(NamedTuple):
    """A command as it is typed, and the lines it prints."""

    command: str
    output: list[str]


def record(broker: Broker, recording: Recording) -> list[Step]:
    """Run the commands with a fresh broker, and a registry if they need one, in an empty folder."""
    environment = {**os.environ, "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap, "COLUMNS": "100"}
    started = [Step("scripts/start", [READY])]
    with tempfile.TemporaryDirectory(prefix="kwire-recording-") as folder, ExitStack() as stack:
        if recording.registry:
            registry = Registry(broker.bootstrap, "_schemas")
            stack.callback(registry.close)
            environment["KWIRE_SCHEMA_REGISTRY_URL"] = registry.url
            started.append(Step("kwire registry", [REGISTRY_READY]))
        steps = [Step(each, _output(each, broker, folder, environment)) for each in recording.commands]
    return [*started, *steps]


def _output(command: str, broker: Broker, folder: str, environment: Mapping[str, str]) -> list[str]:
    command = command.replace(DATA_DIR, str(broker.data_dir))
    text = re.sub(r"\bkwire (?=[a-z])", lambda _: f"{sys.executable} -m kwire ", command)
    done = subprocess.run(
        ["sh", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    shown = done.stdout.replace(broker.bootstrap, ADDRESS).replace(f":{broker.port}", ":9092")
    return shown.replace(broker.host, "localhost").splitlines()


def draw(steps: list[Step], title: str) -> str:
    """The recording as SVG."""
    lines: list[str] = []
    row, second, columns = 0, 0.3, 0
    for step in steps:
        lines.append(_line(row, second, f"$ {step.command}", "line command"))
        row, second = row + 1, second + _SECONDS_BEFORE_OUTPUT
        for each in step.output:
            lines.append(_line(row, second, each, "line"))
            row += 1
        columns = max(columns, len(step.command) + 2, *map(len, step.output), 0)
        second += _SECONDS_BEFORE_COMMAND
    width, height = round(columns * _COLUMN) + 2 * _LEFT, _TOP + row * _LINE
    dots = "".join(
        f'<circle cx="{20 + 18 * index}" cy="17" r="5" fill="{colour}"/>'
        for index, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img">\n<title>{title}</title>\n<style>\n{_STYLE}</style>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#1b1e26"/>\n{dots}\n' + "\n".join(lines) + "\n</svg>\n"
    )


def _line(row: int, second: float, text: str, kind: str) -> str:
    place = f'class="{kind}" x="{_LEFT}" y="{_TOP + row * _LINE}" style="animation-delay:{second:.1f}s"'
    return f"<text {place}>{escape(text, quote=False)}</text>"


def drawn(text: str) -> list[str]:
    """The lines of a recording."""
    return re.findall(r"<text [^>]*>(.*)</text>", text)


def main() -> int:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    for each in RECORDINGS:
        with tempfile.TemporaryDirectory(prefix="kwire-recording-") as folder:
            broker = make_broker("kwire", Path(folder))
            broker.start()
            try:
                each.picture.write_text(draw(record(broker, each), each.title), encoding="utf-8")
            finally:
                broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
