"""Fuzz the codec with mutated frames of real clients: messages, record batches and internal records.

    .venv/bin/python -m campaigns.fuzz_frames --count 10000000 --seed 1 --jobs 2
    .venv/bin/python -m campaigns.fuzz_frames --replay request::00120004...

Seeds are the golden frames of `tests/codec/golden` (five clients, see `tools.capture_frames`), the record batches and
internal records (of `__consumer_offsets`) inside them, the embedded protocol messages of groups, and one message with
default values for each version of every class. A frame is mutated by bit flips, truncation, splices, duplication and
edits of length fields and varints. Decoding may raise CodecError and nothing else, within a time limit; what decodes
must encode again to bytes that decode to an equal message; the memory of a job may not grow. The same seed gives the
same frames.

The exit status is 1 if there are findings; for each of them the command that reproduces it is printed.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import pkgutil
import random
import resource
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, NamedTuple

import kwire.codec.messages
from campaigns.command_line import campaign_parser
from harness.paths import ROOT
from kwire.codec.compression import compress
from kwire.codec.errors import CodecError
from kwire.codec.protocol import (
    api_facts,
    decode,
    decode_request_header,
    encode,
    request_class,
    response_class,
    response_header_version,
)
from kwire.codec.records import (
    BatchHeader,
    Record,
    build_batch,
    crc_is_valid,
    iter_headers,
    iter_records,
    parse_control_key,
    parse_end_transaction_marker,
    validate_batch_structure,
)

GOLDEN = ROOT / "tests" / "codec" / "golden"
FRAME_MAX = 256 * 1024
RECORDS_MAX = 1 << 20  # bytes a batch may decompress to
TIME_MAX_S = 0.5  # of CPU, for a frame of at most FRAME_MAX bytes: the smallest records fill RECORDS_MAX in about 0.1
SUSPICIOUS_S = 0.05  # by the clock; slower ones are timed again, in CPU time: the machine may have been busy
GROWTH_MAX = 64 << 20  # bytes of memory between a fifth of the way and the end
FINDINGS_MAX = 20
ROUND_TRIP_EVERY = 4


class Seed(NamedTuple):
    """Bytes, their kind (`request`, `response`, `batch`, `message`), and which (`api.version`, `module.version`)."""

    kind: str
    which: str
    data: bytes


# -- seeds ------------------------------------------------------------------------------------------------------------


def load_seeds() -> list[Seed]:
    """All seeds, always in the same order."""
    golden = list(golden_frames())
    batches = [Seed("batch", "", batch) for batch in sorted(set(_batches(golden)))]
    messages = sorted(set(_internal_messages(batches)) | set(_embedded_messages(golden)) | set(_default_messages()))
    return golden + batches + list(_built_batches()) + messages


def golden_frames() -> Iterator[Seed]:
    """The captured frames, as `tools.capture_frames` wrote them."""
    frames = (GOLDEN / "frames.bin").read_bytes()
    for _, direction, api_key, version, offset, size in json.loads((GOLDEN / "index.json").read_text()):
        which = "" if direction == "request" else f"{api_key}.{version}"
        yield Seed(direction, which, frames[offset : offset + size])


def _batches(golden: Iterable[Seed]) -> Iterator[bytes]:
    for seed in golden:
        for records in records_of(decode_seed(seed)):
            for position, header in iter_headers(records, allow_partial=True):
                yield bytes(records[position : position + header.size])


def _built_batches() -> Iterator[Seed]:
    records = [Record(i, 1000 + i, b"k" * i, None if i % 3 else b"v" * 40, [("h", b"1")] * (i % 3)) for i in range(12)]
    for codec in range(5):
        yield Seed("batch", "", build_batch(records, compression=codec, producer_id=1, producer_epoch=0))
        # What expands to far more than the bound, and what is full of the smallest records.
        zeros = [Record(value=b"\x00" * (8 << 20))]
        if codec:
            yield Seed("batch", "", build_batch(zeros, compression=codec)[:FRAME_MAX])
        small = build_batch([], base_offset=0)
        body = compress(codec, b"\x0c\x00\x00\x00\x01\x01\x00" * 10_000)
        head = bytearray(small)
        struct.pack_into(">i", head, 8, 49 + len(body))
        struct.pack_into(">hi", head, 21, codec, 9_999)
        struct.pack_into(">i", head, 57, 10_000)
        yield Seed("batch", "", bytes(head) + body)


def message_classes() -> dict[str, Any]:
    """Every message class, by the name of its module."""
    found = {}
    for module in pkgutil.iter_modules(kwire.codec.messages.__path__):
        name = "".join(word.capitalize() for word in module.name.split("_"))
        cls = getattr(importlib.import_module(f"kwire.codec.messages.{module.name}"), name, None)
        if cls is not None:
            found[module.name] = cls
    return found


CLASSES = message_classes()


def _internal_messages(batches: Iterable[Seed]) -> Iterator[Seed]:
    """Keys and values of `__consumer_offsets` that the golden frames happen to carry."""
    keys = {cls.API_KEY: name for name, cls in CLASSES.items() if name.endswith("_key") and "share" not in name}
    for seed in batches:
        for record in iter_records(seed.data, max_bytes=RECORDS_MAX):
            if record.key is None or record.value is None or len(record.key) < 4 or len(record.value) < 3:
                continue
            name = keys.get(struct.unpack_from(">h", record.key)[0])
            version = struct.unpack_from(">h", record.value)[0]
            if name is not None and record.key[:1] == b"\x00":
                yield Seed("message", f"{name}.0", record.key[2:])
                yield Seed("message", f"{name.replace('_key', '_value')}.{version}", record.value[2:])


def _embedded_messages(golden: Iterable[Seed]) -> Iterator[Seed]:
    """Subscriptions and assignments inside JoinGroup and SyncGroup."""
    for seed in golden:
        message = decode_seed(seed)
        for protocol in getattr(message, "protocols", None) or ():
            if hasattr(protocol, "metadata"):
                yield from _versioned("consumer_protocol_subscription", bytes(protocol.metadata))
        for assignment in getattr(message, "assignments", None) or ():
            if isinstance(getattr(assignment, "assignment", None), bytes):
                yield from _versioned("consumer_protocol_assignment", bytes(assignment.assignment))


def _versioned(name: str, data: bytes) -> Iterator[Seed]:
    if len(data) > 2:
        yield Seed("message", f"{name}.{struct.unpack_from('>h', data)[0]}", data[2:])


def _default_messages() -> Iterator[Seed]:
    for name, cls in CLASSES.items():
        first, last = cls.VALID_VERSIONS
        for version in range(first, last + 1):
            try:
                yield Seed("message", f"{name}.{version}", bytes(encode(cls(), version)))
            except CodecError:
                continue  # a default that this version cannot carry


# -- what a frame is fed to --------------------------------------------------------------------------------------------


def decode_seed(seed: Seed) -> Any:
    """Decode as a broker or a client does; return the message (of a batch, its headers). Raises CodecError."""
    return TARGETS[seed.kind](seed)


def _decode_request(seed: Seed) -> Any:
    frame = memoryview(seed.data)
    header, position = decode_request_header(frame)
    facts = api_facts(header.request_api_key)
    if not facts.first_version <= header.request_api_version <= facts.last_version:
        raise CodecError("a version that is not served")
    message, _ = decode(request_class(header.request_api_key), header.request_api_version, frame, position)
    return message


def _decode_response(seed: Seed) -> Any:
    api_key, version = map(int, seed.which.split("."))
    start = 5 if response_header_version(api_key, version) else 4
    return decode(response_class(api_key), version, memoryview(seed.data), start)[0]


def _decode_message(seed: Seed) -> Any:
    name, _, version = seed.which.partition(".")
    return decode(CLASSES[name], int(version), seed.data)[0]


def walk_batches(buffer: bytes | memoryview) -> list[BatchHeader]:
    """Do all that a broker does with the bytes of batches."""
    headers = []
    for position, header in iter_headers(buffer, allow_partial=True):
        headers.append(header)
        crc_is_valid(buffer, position, header)
        batch = memoryview(buffer)[position : position + header.size]
        try:
            validate_batch_structure(header)
        except CodecError:
            pass
        for record in iter_records(batch, max_bytes=RECORDS_MAX):
            if header.is_control:
                parse_control_key(record)
                parse_end_transaction_marker(record)
    return headers


TARGETS: dict[str, Callable[[Seed], Any]] = {
    "request": _decode_request,
    "response": _decode_response,
    "message": _decode_message,
    "batch": lambda seed: walk_batches(seed.data),
}


def records_of(message: Any) -> Iterator[Any]:
    """The `records` of a Produce request or a Fetch response."""
    if message.__class__.__name__ == "ProduceRequest":
        for topic in message.topic_data:
            yield from (partition.records for partition in topic.partition_data if partition.records is not None)
    elif message.__class__.__name__ == "FetchResponse":
        for topic in message.responses:
            yield from (partition.records for partition in topic.partitions if partition.records is not None)


def check(seed: Seed, round_trip: bool) -> bool:
    """Decode, read the records, with ``round_trip`` encode again. False if the frame was refused with CodecError."""
    try:
        message = decode_seed(seed)
    except CodecError:
        return False
    if seed.kind == "batch":
        return True
    for records in records_of(message):
        try:
            walk_batches(records)
        except CodecError:
            pass
    if round_trip:
        _check_round_trip(seed, message)
    return True


def _check_round_trip(seed: Seed, message: Any) -> None:
    if seed.kind == "request":
        version = struct.unpack_from(">h", seed.data, 2)[0]
    else:
        version = int(seed.which.rpartition(".")[2])
    encoded = bytes(encode(message, version))
    again, end = decode(message.__class__, version, encoded)
    assert end == len(encoded), "what was encoded does not decode to its end"
    assert bytes(encode(again, version)) == encoded, "the message changes from one round trip to the next"


# -- mutations ---------------------------------------------------------------------------------------------------------

_INT16 = [struct.pack(">h", n) for n in (-1, 0, 1, 2, -2, 100, 255, 256, 0x7FFF, -0x8000)]
_INT32 = [struct.pack(">i", n) for n in (-1, 0, 1, 2, -2, 7, 1000, 65536, 999_999, 1_000_001, 2**31 - 1, -(2**31))]
_INT64 = [struct.pack(">q", n) for n in (-1, 0, 1, 2**63 - 1, -(2**63), 2**32)]
_VARINTS = [
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80\x01",
    b"\xff\x7f",
    b"\x80\x80\x04",
    b"\xc0\x84\x3d",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 10,
    b"\xff" * 9 + b"\x01",
    b"\x80\x80\x80\x80\x80\x01",
    b"\x80\x00",
]
_WHEEL = ("request", "request", "request", "response", "response", "batch", "batch", "message")
_FIXED = _INT16 + _INT32 + _INT64


class Mutator:
    """Makes mutated frames from seeds; all choices come from one random generator."""

    def __init__(self, seeds: list[Seed], rng: random.Random) -> None:
        self._seeds = seeds
        self._rng = rng
        by_kind = {kind: [seed for seed in seeds if seed.kind == kind] for kind in TARGETS}
        self._wheel = [by_kind[kind] for kind in _WHEEL]
        self._mutations = [
            self._flip_bits,
            self._flip_bits,
            self._overwrite,
            self._cut,
            self._remove,
            self._duplicate,
            self._insert,
            self._edit_length,
            self._edit_length,
            self._edit_varint,
            self._edit_varint,
            self._splice,
        ]

    def frame(self) -> Seed:
        """The next mutated frame."""
        rng = self._rng
        seeds = self._wheel[int(rng.random() * len(self._wheel))]
        seed = seeds[int(rng.random() * len(seeds))]
        data = bytearray(seed.data)
        for _ in range((1, 1, 1, 2, 2, 3, 5, 8)[int(rng.random() * 8)]):
            self._mutations[int(rng.random() * len(self._mutations))](data)
        if len(data) > FRAME_MAX:
            del data[FRAME_MAX:]
        if seed.kind == "request" and rng.random() < 0.8:
            data[:4] = seed.data[:4]  # most should get past the API key and version
        elif seed.kind == "batch" and rng.random() < 0.8:
            self._restore_batch(seed, data)
        elif seed.kind in ("message", "response") and rng.random() < 0.05:
            return seed._replace(which=self._another(seed), data=bytes(data))
        return seed._replace(data=bytes(data))

    def _restore_batch(self, seed: Seed, data: bytearray) -> None:
        """Length and magic that let the reader see the records."""
        data[16:17] = seed.data[16:17]
        data[8:12] = struct.pack(">i", max(len(data) - 12, 0))

    def _another(self, seed: Seed) -> str:
        others = [other for other in self._seeds if other.kind == seed.kind]
        return others[int(self._rng.random() * len(others))].which

    def _at(self, data: bytearray) -> int:
        return int(self._rng.random() * len(data))

    def _flip_bits(self, data: bytearray) -> None:
        for _ in range((1, 1, 2, 4)[int(self._rng.random() * 4)] if data else 0):
            data[self._at(data)] ^= 1 << int(self._rng.random() * 8)

    def _overwrite(self, data: bytearray) -> None:
        if data:
            value = (0, 1, 0x7F, 0x80, 0xFF, int(self._rng.random() * 256))[int(self._rng.random() * 6)]
            data[self._at(data)] = value

    def _cut(self, data: bytearray) -> None:
        del data[self._at(data) :]

    def _remove(self, data: bytearray) -> None:
        start = self._at(data)
        del data[start : start + 1 + int(self._rng.random() ** 3 * 64)]

    def _duplicate(self, data: bytearray) -> None:
        start = self._at(data)
        piece = data[start : start + 1 + int(self._rng.random() ** 2 * 128)]
        times = 1 + int(self._rng.random() ** 4 * 16)
        if self._rng.random() < 0.002:
            times = FRAME_MAX // (len(piece) + 1)
        data[start:start] = piece * times

    def _insert(self, data: bytearray) -> None:
        start = self._at(data)
        data[start:start] = self._rng.randbytes(1 + int(self._rng.random() ** 3 * 32))

    def _edit_length(self, data: bytearray) -> None:
        start = self._at(data)
        if self._rng.random() < 0.3:  # about as many as bytes are left
            near = len(data) - start - (2, 4, 5, 3)[int(self._rng.random() * 4)] + int(self._rng.random() * 3)
            value = struct.pack(">i", near) if self._rng.random() < 0.5 else struct.pack(">H", near & 0xFFFF)
        else:
            value = _FIXED[int(self._rng.random() * len(_FIXED))]
        data[start : start + len(value)] = value

    def _edit_varint(self, data: bytearray) -> None:
        start = self._at(data)
        data[start : start + 1] = _VARINTS[int(self._rng.random() * len(_VARINTS))]

    def _splice(self, data: bytearray) -> None:
        other = self._seeds[int(self._rng.random() * len(self._seeds))].data
        start = int(self._rng.random() * len(other))
        data[self._at(data) :] = other[start:]


# -- the campaign ------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """The results of one job, or of all jobs. Times in seconds, memory in bytes."""

    frames: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    slowest: str = ""
    memory_growth: int = 0
    memory_peak: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Add another report: counts are summed, times and memory keep the larger value."""
        self.frames += other.frames
        self.refused += other.refused
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = other.slowest_s, other.slowest
        self.memory_growth = max(self.memory_growth, other.memory_growth)
        self.memory_peak = max(self.memory_peak, other.memory_peak)
        self.kinds += other.kinds
        self.findings += other.findings


def resident_bytes() -> int:
    """The resident memory of this process; its peak where the system does not report the current value."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_job(seeds: list[Seed], seed: int, job: int, count: int, progress: Callable[[int], None]) -> Report:
    """Decode `count` mutated frames."""
    report = Report()
    rng = random.Random(f"{seed}/{job}")
    mutator = Mutator(seeds, rng)
    baseline = 0
    for number in range(count):
        if number % 10_000 == 0:
            if number >= count // 5:
                baseline = baseline or resident_bytes()
                report.memory_growth = max(report.memory_growth, resident_bytes() - baseline)
            progress(10_000 if number else 0)
        frame = mutator.frame()
        report.kinds[frame.kind] += 1
        _feed(frame, report, number % ROUND_TRIP_EVERY == 0)
        if len(report.findings) >= FINDINGS_MAX:
            break
    report.memory_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if report.memory_growth > GROWTH_MAX:
        report.findings.append(f"memory grew by {report.memory_growth >> 20} MiB in job {job} of seed {seed}")
    return report


def _feed(frame: Seed, report: Report, round_trip: bool) -> None:
    report.frames += 1
    started = time.perf_counter()
    try:
        if not check(frame, round_trip):
            report.refused += 1
    except Exception as error:
        report.findings.append(f"{type(error).__name__}: {error}\n    --replay {spelled(frame)}")
        return
    took = time.perf_counter() - started
    if took > SUSPICIOUS_S and took > report.slowest_s:
        took = min(took, *(_time(frame, round_trip) for _ in range(2)))
    if took > report.slowest_s:
        report.slowest_s, report.slowest = took, spelled(frame)
        if took > TIME_MAX_S:
            report.findings.append(f"{took:.2f} s for {len(frame.data)} bytes\n    --replay {spelled(frame)}")


def _time(frame: Seed, round_trip: bool) -> float:
    started = time.thread_time()
    check(frame, round_trip)
    return time.thread_time() - started


def spelled(frame: Seed) -> str:
    """A frame as ``--replay`` takes it."""
    return f"{frame.kind}:{frame.which}:{frame.data.hex()}"


def replay(text: str) -> int:
    """Decode one frame in ``--replay`` form, raise what it raises, and print how long it took."""
    kind, which, data = text.split(":")
    frame = Seed(kind, which, bytes.fromhex(data))
    started = time.perf_counter()
    taken = check(frame, True)
    print(f"{'decoded' if taken else 'refused'} in {(time.perf_counter() - started) * 1e3:.3f} ms")
    return 0


def _job(seed: int, job: int, count: int, queue: Queue[Any]) -> None:
    queue.put(run_job(load_seeds(), seed, job, count, queue.put))


def campaign(count: int, seed: int, jobs: int, say: Callable[[str], None]) -> Report:
    """Decode all frames in `jobs` processes; print progress about every ten seconds."""
    context = multiprocessing.get_context("spawn")
    queue: Queue[Any] = context.Queue()
    shares = [count // jobs + (job < count % jobs) for job in range(jobs)]
    processes = [context.Process(target=_job, args=(seed, job, share, queue)) for job, share in enumerate(shares)]
    for process in processes:
        process.start()
    total, done, fed = Report(), 0, 0
    started = printed_s = time.monotonic()
    while done < jobs:
        try:
            message = queue.get(timeout=30)
        except Exception:
            if any(process.exitcode not in (None, 0) for process in processes):
                total.findings.append("a job ended without its report")
                break
            continue
        if isinstance(message, Report):
            total.add(message)
            done += 1
        else:
            fed += message
        if time.monotonic() - printed_s > 10:
            printed_s = time.monotonic()
            say(f"{fed:,} frames, {fed / (printed_s - started):,.0f}/s")
    for process in processes:
        process.join(10)
    return total


def main() -> int:
    """The command line; 1 if there are findings."""
    parser = campaign_parser("fuzz_frames", __doc__)
    parser.add_argument("--count", type=int, default=100_000, help="how many frames in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--replay", metavar="KIND:WHICH:HEX", help="decode one frame that a run has printed")
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    started = time.monotonic()
    report = campaign(options.count, options.seed, options.jobs, lambda line: print(line, flush=True))
    took = time.monotonic() - started
    print(f"seed {options.seed}: {report.frames:,} frames in {took:.0f} s ({report.frames / took:,.0f}/s)")
    print(f"  {dict(sorted(report.kinds.items()))}")
    print(f"  refused with CodecError: {report.refused:,}; slowest {report.slowest_s * 1e3:.1f} ms")
    print(f"  slowest frame: {report.slowest[:200]}")
    print(f"  memory: peak {report.memory_peak >> 20} MiB a process, growth {report.memory_growth >> 20} MiB")
    print(f"  findings: {len(report.findings)}")
    for finding in report.findings:
        print(f"- {finding}")
    return 1 if report.findings or report.frames < options.count else 0


if __name__ == "__main__":
    sys.exit(main())
