"""Verifying a data directory: an intact one has no findings, and every kind of damage is found where it is."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from kwire.cli import main
from kwire.codec.records import Record, build_batch
from kwire.log.verification.offline import DirectoryVerifier, Finding
from kwire.server.broker import Broker

NOW_MS = 1_790_000_000_000


@pytest.fixture
async def directory(tmp_path: Path) -> Path:
    """A data directory that a broker wrote: a topic with several batches of an idempotent producer."""
    from kwire.base.futures import resolved
    from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
    from kwire.handlers.context import RequestContext
    from kwire.handlers.topics import create_topics

    path = tmp_path / "data"
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(path)) as broker:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)], timeout_ms=5000
        )
        await resolved(create_topics.API.handle(request, RequestContext(broker.services, api_version=7)))
        partition = broker.replicas.partition("t", 0)
        for number in range(40):
            records = [Record(timestamp=NOW_MS + number, key=b"k", value=b"v" * 400)]
            batch = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=number, compression=number % 5)
            partition.append(memoryview(bytearray(batch)), required_acks=1)
        partition.log.roll()
        partition.append(memoryview(bytearray(build_batch([Record(timestamp=NOW_MS, value=b"end")]))), required_acks=1)
    return path


def findings(path: Path, *, deep: bool = True) -> list[Finding]:
    return DirectoryVerifier(str(path), deep=deep).run()


def segment(path: Path, suffix: str = ".log") -> Path:
    return path / "t-0" / f"{0:020d}{suffix}"


def test_a_directory_that_a_broker_wrote_has_no_findings(directory: Path) -> None:
    verifier = DirectoryVerifier(str(directory), deep=True)
    assert verifier.run() == []
    assert verifier.totals.records == 41
    assert verifier.totals.segments == 2


def test_a_flipped_bit_anywhere_in_a_segment_is_found(directory: Path) -> None:
    good = segment(directory).read_bytes()
    rng = random.Random(3)
    for _ in range(200):
        bad = bytearray(good)
        position = rng.randrange(len(bad))
        in_batch = batch_offset(good, position)
        if 8 + 4 <= in_batch < 8 + 8:
            continue  # the partition leader epoch lies outside the checksum
        bad[position] ^= 1 << rng.randrange(8)
        segment(directory).write_bytes(bad)
        found = findings(directory, deep=False)
        assert found, f"bit at {position}, byte {in_batch} of its batch"
        assert found[0].path.startswith(str(directory / "t-0"))
    segment(directory).write_bytes(good)


def batch_offset(data: bytes, position: int) -> int:
    start = 0
    while True:
        size = 12 + int.from_bytes(data[start + 8 : start + 12], "big")
        if position < start + size:
            return position - start
        start += size


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (f"t-0/{0:020d}.log", lambda data: data[:-5]),
        (f"t-0/{0:020d}.index", lambda data: data + b"\0\0\0\1" + b"\0\0\0\2"),
        (f"t-0/{0:020d}.index", lambda data: data + b"abc"),
        (f"t-0/{0:020d}.timeindex", lambda data: data + data[:12]),
        (f"t-0/{41:020d}.snapshot", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        (f"t-0/{99:020d}.index", lambda _: b""),
        ("t-0/leader-epoch-checkpoint", lambda _: b"0\n1\n0 5000\n"),
        ("t-0/leader-epoch-checkpoint", lambda _: b"nonsense"),
        ("t-0/partition.metadata", lambda _: b"version: 0\ntopic_id: short\n"),
        ("recovery-point-offset-checkpoint", lambda _: b"0\n1\nt 0 5000\n"),
        ("replication-offset-checkpoint", lambda _: b"0\n9\n"),
        ("meta.properties", lambda _: b"version=7\n"),
    ],
)  # fmt: skip
def test_damage_is_found_in_the_file_that_has_it(directory: Path, name: str, damage: object) -> None:
    path = directory / name
    path.write_bytes(damage(path.read_bytes() if path.exists() else b""))  # type: ignore[operator]
    assert str(path) in [finding.path for finding in findings(directory)]


def test_a_missing_metadata_file_is_found(directory: Path) -> None:
    (directory / "t-0" / "partition.metadata").unlink()
    assert [finding.path for finding in findings(directory)] == [str(directory / "t-0" / "partition.metadata")]


def test_the_command_prints_findings_and_exits_with_a_status(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify-log", str(directory), "--json", "--quiet"]) == 0
    totals = json.loads(capsys.readouterr().out)
    assert (totals["findings"], totals["records"]) == (0, 41)
    segment(directory).write_bytes(b"garbage")
    assert main(["verify-log", str(directory), "--quiet"]) == 1
    assert "garbage" not in capsys.readouterr().out
    assert main(["verify-log", str(directory / "nowhere"), "--quiet"]) == 1


def test_a_directory_in_use_is_not_verified(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kwire.base.doors import Files

    fd = Files().lock(str(directory / ".lock"))
    assert fd is not None
    assert main(["verify-log", str(directory)]) == 1
    assert "in use" in capsys.readouterr().err
    Files.close(fd)


def test_dump_log_prints_batches_records_and_entries(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--json", "--records", str(segment(directory))]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    batches = [line for line in lines if "base_offset" in line]
    assert [line["base_offset"] for line in batches] == list(range(40))
    assert {line["compression"] for line in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert [line["value"] for line in lines if "record" in line] == ["v" * 400] * 40
    for suffix in (".index", ".timeindex"):
        assert main(["dump-log", "--json", str(segment(directory, suffix))]) == 0
        assert len(capsys.readouterr().out.splitlines()) > 1
    snapshot = directory / "t-0" / f"{40:020d}.snapshot"
    assert main(["dump-log", str(snapshot)]) == 0
    assert "producer_id=7" in capsys.readouterr().out
    checkpoint = directory / "recovery-point-offset-checkpoint"
    assert main(["dump-log", str(checkpoint)]) == 0
    assert "topic=t partition=0 offset=41" in capsys.readouterr().out


def test_dump_log_names_damage_and_continues_with_the_next_file(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = bytearray(segment(directory).read_bytes())
    bad[-20] ^= 4
    segment(directory).write_bytes(bad)
    other = directory / "recovery-point-offset-checkpoint"
    assert main(["dump-log", str(segment(directory)), str(directory / "nothing"), str(other)]) == 1
    captured = capsys.readouterr()
    assert "checksum" in captured.err
    assert "No such file" in captured.err
    assert "base_offset=0" in captured.out
    assert "topic=t" in captured.out
