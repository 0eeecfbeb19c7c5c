"""docs/SPARK.md does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients.pyspark.frames import RECORDS
from compat_tests.names import Names
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.registries.process import Registry

pytestmark = pytest.mark.java
GUIDE = (ROOT / "docs" / "SPARK.md").read_text()
FIRST_QUERY, OWN_SESSION, FILES, AVRO = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
(SUBMIT,) = re.findall(r"^spark-submit .* orders\.py$", GUIDE, re.MULTILINE)
QUERIES = """
import sys

from tools.spark_releases.queries import check

check(spark, *sys.argv[1:])
spark.stop()
"""


def test_the_first_query_of_the_guide_prints_what_it_says(
    spark: Any, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the tests' session, with topics and a checkpoint of its own."""
    import kwire.spark

    code = FIRST_QUERY
    printed = re.findall(r"It prints `(.*?)`", GUIDE)[0]
    monkeypatch.setattr(kwire.spark, "session", lambda *_, **__: spark, raising=False)
    own = {"localhost:9092": broker.bootstrap, "orders": f"{tmp_path.name}-orders", "/tmp": str(tmp_path)}
    for text, name in own.items():
        assert text in code
        code = code.replace(f'"{text}', f'"{name}').replace(f'loud-{text}"', f'loud-{name}"')
    exec(code, {})
    assert capsys.readouterr().out.splitlines()[-1] == printed


def test_the_guide_reads_the_files_of_a_broker(spark: Any, broker: Broker, filled: str) -> None:
    assert "/var/lib/kwire/data" in FILES
    code = FILES.replace("/var/lib/kwire/data", str(broker.data_dir)).replace('"orders"', f'"{filled}"')
    names = {"spark": spark}

    def count() -> int:
        exec(code, names)
        return int(names["rows"].count())

    wait_until(lambda: count() == RECORDS, 60, "a checkpoint of the high watermarks", 0.5)


def test_the_guide_writes_and_reads_avro(
    spark: Any, broker: Broker, new_name: Names, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = Registry(broker.bootstrap, new_name("schemas"))
    try:
        code = AVRO.replace("http://localhost:8081", registry.url).replace('"payments"', f'"{new_name("payments")}"')
        exec(code, {"spark": spark, "broker": {"kafka.bootstrap.servers": broker.bootstrap}})
    finally:
        registry.close()
    (printed,) = re.findall(r"It prints `(\[Row.*?)`", GUIDE)
    assert capsys.readouterr().out.splitlines()[-1] == printed


@pytest.mark.parametrize(
    "command", ["python orders.py", pytest.param(SUBMIT, marks=pytest.mark.long)], ids=["python", "spark-submit"]
)
def test_a_session_of_the_guide_runs_the_queries_that_every_release_is_tried_with(command: str, tmp_path: Path) -> None:
    """With the PySpark that is installed; `tools.spark_releases` runs them with all others."""
    (tmp_path / "orders.py").write_text(OWN_SESSION + QUERIES)
    bin_folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    broker = make_broker("kwire", tmp_path / "broker")
    try:
        broker.start()
        line = f"{command} {broker.bootstrap} {tmp_path} guide"
        ended = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
    finally:
        broker.kill()
    assert ended.returncode == 0, ended.stderr[-3000:]


def test_every_pyspark_of_the_table_has_the_connector_that_it_names() -> None:
    from kwire.spark.sessions import connector

    rows = re.findall(r"^\| (4.*?) \| `(.*?)` \|$", GUIDE, re.MULTILINE)
    assert len(rows) == 3
    for versions, package in rows:
        for version in re.findall(r"[\d.]+", versions):
            assert connector(version) == package
