"""The golden frames of real clients, and a small run of the campaign that `campaigns/fuzz_frames.py` runs in full."""

from __future__ import annotations

import struct
from random import Random

import pytest

from campaigns import fuzz_frames
from kwire.codec.protocol import decode_request_header, encode, response_header_version


@pytest.fixture(scope="module")
def seeds() -> list[fuzz_frames.Seed]:
    return fuzz_frames.load_seeds()


def test_every_golden_frame_is_decoded_and_encoded_to_the_same_bytes() -> None:
    golden = list(fuzz_frames.golden_frames())
    assert len(golden) > 400
    for seed in golden:
        if seed.kind == "request":
            header, start = decode_request_header(seed.data)
            version = header.request_api_version
        else:
            api_key, version = map(int, seed.which.split("."))
            start = 5 if response_header_version(api_key, version) else 4
        message = fuzz_frames.decode_seed(seed)
        assert bytes(encode(message, version)) == seed.data[start:], (seed.which, seed.data[:8])


def test_golden_frames_hold_batches_of_every_compression(seeds: list[fuzz_frames.Seed]) -> None:
    produced = [seed for seed in seeds if seed.kind == "request" and seed.data[:2] == b"\x00\x00"]
    batches = [records for seed in produced for records in fuzz_frames.records_of(fuzz_frames.decode_seed(seed))]
    assert {records[22] & 7 for records in batches} == {0, 1, 2, 3, 4}


def test_twenty_thousand_mutated_frames_raise_nothing_but_codec_error(seeds: list[fuzz_frames.Seed]) -> None:
    report = fuzz_frames.run_job(seeds, seed=2026, job=0, count=20_000, progress=lambda _: None)
    assert report.findings == []
    assert report.frames == 20_000
    assert 1_000 < report.refused < 19_000, "mutations should break many frames, and leave many whole"


def test_a_frame_that_breaks_the_rules_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself: an exception that is no CodecError comes out with its reproducer."""

    def broken(seed: fuzz_frames.Seed) -> None:
        struct.unpack(">q", seed.data[:3])

    monkeypatch.setitem(fuzz_frames.TARGETS, "batch", broken)
    which = {"message": "group_metadata_key.0"}
    only = [fuzz_frames.Seed(kind, which.get(kind, "0.0"), b"\x00" * 61) for kind in fuzz_frames.TARGETS]
    report = fuzz_frames.run_job(only, seed=1, job=0, count=50, progress=lambda _: None)
    assert report.findings
    assert report.findings[0].startswith("error: unpack requires")
    assert "--replay batch:0.0:" in report.findings[0]


def test_the_same_seed_gives_the_same_frames(seeds: list[fuzz_frames.Seed]) -> None:
    def frames(number: int) -> list[fuzz_frames.Seed]:
        mutator = fuzz_frames.Mutator(seeds, Random(number))
        return [mutator.frame() for _ in range(200)]

    assert frames(1) == frames(1)
    assert frames(1) != frames(2)
