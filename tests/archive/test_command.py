"""``kwire archive`` as a command line: what is wrong with it, and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cli import main


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--to", "parquet"], "--path: the folder of the table is missing"),
        (["--to", "parquet", "--path", ""], "--path: the folder's name is empty"),
        (["--to", "delta", "--path", "p", "--table", "a.b"], "--catalog and --table are for --to iceberg"),
        (["--to", "delta", "--path", "p", "--data-dir", "d", "-b", "h:1"], "leave --bootstrap-server out"),
        (
            ["--to", "iceberg", "--path", "p", "--engine", "spark"],
            "--engine spark writes Parquet files and Delta tables",
        ),
        (["--to", "delta", "--path", "s3://b/p", "--engine", "spark"], "Delta tables in a folder"),
        (["--to", "orc", "--path", "p"], "invalid choice: 'orc'"),
        (["--path", "p"], "the following arguments are required: --to"),
        (["--to", "delta", "--path", "p", "--interval", "0"], "'0' is not a number of seconds"),
        (["--to", "delta", "--path", "p", "--commit-records", "0"], "'0' is not a positive number"),
    ],
)
def test_a_wrong_command_line_is_status_2(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(["archive", "orders", *words])
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert reason in capsys.readouterr().err


def test_a_directory_that_is_none_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["archive", "orders", "--to", "parquet", "--path", str(tmp_path / "p"), "--until-end"]
    assert main([*words, "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"kwire: {tmp_path}: no data directory, it has no meta.properties\n"
    assert main([*words, "--data-dir", str(tmp_path / "x")]) == 1
    assert "No such file or directory" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()
