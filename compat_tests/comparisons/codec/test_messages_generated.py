"""The message classes in the tree equal the generator's output from the tables in Kafka's jars."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.kafka_jars import kafka_jars_dir
from harness.paths import ROOT

pytestmark = pytest.mark.java


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.generate_messages", "--jars", str(kafka_jars_dir())]
    subprocess.run([*command, "--output", str(tmp_path)], check=True, timeout=300, cwd=ROOT)
    tree = ROOT / "kwire" / "codec"
    in_tree = {path.relative_to(tree): path.read_text() for path in (tree / "messages").glob("*.py")}
    in_tree[Path("api_table.py")] = (tree / "api_table.py").read_text()
    generated = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.py")}
    assert sorted(in_tree) == sorted(generated)
    different = [str(path) for path, text in generated.items() if in_tree[path] != text]
    assert not different
