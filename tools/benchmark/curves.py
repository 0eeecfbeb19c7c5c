"""``scripts/bench --curves [NAME...]``: how kwire's costs grow with connections, partitions, topics, groups and data.

Each curve goes in steps of ten, with a last one at the size that is promised, and prints the cost of one unit of work
at each step. It should stay level: a column that rises with the first one shows work that grows faster than its cause.
Only kwire is measured. With ``--record`` the output goes to docs/curves.txt and a picture of it to docs/curves.svg;
curves that are not named stay as they are. Columns of processor time and memory hardly depend on what else the machine
does; those of elapsed time ("of all", "restart") do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.charts.log_log import Panel, svg
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.records import RecordBatchBuilder
from tools.benchmark import frames, generator
from tools.benchmark.extras import fresh, start_again_s
from tools.benchmark.machine import machine
from tools.benchmark.targets import Target, Topic
from tools.benchmark.workloads import MEGABYTE

Row = dict[str, str]

REQUESTS = 10_000
TOPIC_PARTITIONS_MAX = 10_000
"""Apache Kafka's limit of partitions in one request."""


def one_record_us(target: Target, topic: Topic, connections: int = 1, requests: int = REQUESTS) -> float:
    """The broker's processor time for a request with one record, the best of three runs."""
    template = [frames.produce(topic.id, [0], *frames.batch_of(100, 0), acks=-1)]
    requests = max(requests, 3 * connections)
    results = [
        generator.run(target, template, producers=connections, inflight=1, requests=requests, limit_s=120)
        for _ in range(3)
    ]
    return float(min(each["cpu_s"] / each["requests"] for each in results)) * 1e6


def idle_percent(target: Target, seconds: float = 5.0) -> float:
    """Processor time without any requests, in percent of the time."""
    time.sleep(1)
    before, started = target.cpu_s(), time.perf_counter()
    time.sleep(seconds)
    return 100 * (target.cpu_s() - before) / (time.perf_counter() - started)


def connections() -> Iterator[Row]:
    """idle and active connections, up to 5,000"""
    with fresh("kwire") as target:
        topic = target.create_topic()
        one_record_us(target, topic)
        empty = target.proportional_mb()
        for count in (1, 10, 100, 1000, 5000):
            idle = [target.client() for _ in range(count)]
            for each in idle[:: max(1, count // 100)]:
                each.call(MetadataRequest(topics=[]), 12)
            memory = target.proportional_mb()
            beside = one_record_us(target, topic)
            for each in idle:
                each.close()
            yield {
                "connections": f"{count}",
                "request beside so many idle ones": f"{beside:.1f} us",
                "request on so many active ones": f"{one_record_us(target, topic, count):.1f} us",
                "memory of an idle one": f"{max(memory - empty, 0) * 1e3 / count:.1f} kB",
            }


def partitions() -> Iterator[Row]:
    """partitions of topics with up to 10,000, up to 20,000 in all: creation, memory, descriptors, restart"""

    def create(target: Target, count: int) -> Topic:
        for begun in range(TOPIC_PARTITIONS_MAX, count, TOPIC_PARTITIONS_MAX):
            target.create_topic(min(count - begun, TOPIC_PARTITIONS_MAX))
        return target.create_topic(min(count, TOPIC_PARTITIONS_MAX))

    yield from _growing_topics(create, "partitions")


def topics() -> Iterator[Row]:
    """topics of one partition, up to 20,000"""

    def create(target: Target, count: int) -> Topic:
        with target.client() as client:
            for start in range(0, count - 1, 500):
                new = [
                    CreatableTopic(name=f"many-{number}", num_partitions=1, replication_factor=1)
                    for number in range(start, min(start + 500, count - 1))
                ]
                client.call(CreateTopicsRequest(topics=new, timeout_ms=120_000), 7)
        return target.create_topic()

    yield from _growing_topics(create, "topics")


def _growing_topics(create: Callable[[Target, int], Topic], unit: str) -> Iterator[Row]:
    # Nothing is deleted before the end: for minutes after a deletion of many files ext4 takes several times as long to
    # make others, as it passes over what was deleted.
    with tempfile.TemporaryDirectory(prefix="bench-curve-") as house:
        memories: dict[int, float] = {}
        for count in (1, 10, 100, 1000, 10_000, 20_000):
            with fresh("kwire", kept_in=Path(house)) as target:
                yield _grown(target, create, unit, count, memories)


def _grown(
    target: Target, create: Callable[[Target, int], Topic], unit: str, count: int, memories: dict[int, float]
) -> Row:
    """A step of `_growing_topics`; ``memories``: the broker's memory at each step so far, to which it adds."""
    before, kernel_before, started = target.cpu_s(), target.kernel_s(), time.perf_counter()
    topic = create(target, count)
    seconds, used, kernel = time.perf_counter() - started, target.cpu_s() - before, target.kernel_s() - kernel_before
    request = one_record_us(target, topic)
    idle = idle_percent(target)
    memory = target.proportional_mb()
    descriptors = target.descriptors()
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)] if unit == "topics" else None)
    template = [frames.Template(frames.frame(wanted, frames.METADATA_VERSION))]
    metadata = generator.run(target, template, producers=1, inflight=1, requests=50)
    restart = start_again_s(target)
    restart_cpu = target.cpu_s()
    previous = max(memories, default=0)
    grown = f"{(memory - memories[previous]) * 1e3 / (count - previous):.1f} kB" if previous else ""
    memories[count] = memory
    return {
        unit: f"{count}",
        "creation of one, user CPU": f"{(used - kernel) / count * 1e3:.2f} ms",
        "system CPU": f"{kernel / count * 1e3:.2f} ms",
        "of all": f"{seconds:.2f} s",
        "one-record request": f"{request:.1f} us",
        "memory": f"{memory:.0f} MB",
        "growth for one": grown,
        "descriptors": f"{descriptors}",
        "idle CPU": f"{idle:.2f} %",
        "Metadata" if unit == "partitions" else "Metadata of one": f"{metadata['cpu_s'] / 50 * 1e6:.0f} us",
        "restart": f"{restart:.2f} s",
        "restart, CPU": f"{restart_cpu:.2f} s",
    }


def groups() -> Iterator[Row]:
    """consumer groups with committed offsets, up to 2,000"""
    with fresh("kwire") as target:
        topic = target.create_topic()
        with target.client() as client:
            while client.call(FindCoordinatorRequest(key="group-0"), 2).error_code:
                time.sleep(0.05)
        empty = target.proportional_mb()
        for count in (1, 10, 100, 1000, 2000):
            templates = [frames.Template(frames.frame(_commit(topic, f"group-{n}"), 8)) for n in range(count)]
            generator.run(target, templates, producers=1, inflight=5, requests=max(count, 2000))
            memory = target.proportional_mb()
            runs = [generator.run(target, templates, producers=1, inflight=5, requests=10_000) for _ in range(3)]
            listing = [frames.Template(frames.frame(ListGroupsRequest(), 4))]
            listed = generator.run(target, listing, producers=1, inflight=1, requests=50)
            yield {
                "groups": f"{count}",
                "OffsetCommit": f"{min(each['cpu_s'] for each in runs) / 10_000 * 1e6:.1f} us",
                "ListGroups": f"{listed['cpu_s'] / 50 * 1e6:.0f} us",
                "memory of one": f"{max(memory - empty, 0) * 1e3 / count:.1f} kB",
                "idle CPU": f"{idle_percent(target, 3):.2f} %",
            }


def _commit(topic: Topic, group: str) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic.name, partitions=[part])])


STAT_BLOCK_BYTES = 512
"""The unit of `os.stat_result.st_blocks`."""

SPARSE_STEP_MB = 2000
"""So much is written before its zeros are given back to the file system."""


def data() -> Iterator[Row]:
    """megabytes in one partition, up to 50,000, sparse files: appends, look-ups, memory, restart"""
    with fresh("kwire", {"log.segment.bytes": str(100 * MEGABYTE)}) as target:
        topic = target.create_topic()
        held = 0
        for megabytes in (10, 100, 1000, 10_000, 50_000):
            if not _fill(topic, held, megabytes):
                return
            held = megabytes
            request = one_record_us(target, topic)
            ends = topic.end_offsets()
            assert ends is not None
            first = [frames.Template(frames.frame(_look_up(topic, 1), 7))]
            looked_up = generator.run(target, first, producers=1, inflight=1, requests=500)
            memory = target.proportional_mb()
            allocated = sum(path.stat().st_blocks for path in topic.directories()[0].iterdir()) * STAT_BLOCK_BYTES
            restart = start_again_s(target)
            restart_cpu = target.cpu_s()
            yield {
                "MB": f"{megabytes}",
                "on disk": f"{allocated / MEGABYTE:.0f} MB",
                "one-record request": f"{request:.1f} us",
                "look-up by time": f"{looked_up['cpu_s'] / 500 * 1e6:.0f} us",
                "memory": f"{memory:.0f} MB",
                "restart": f"{restart:.2f} s",
                "restart, CPU": f"{restart_cpu:.2f} s",
            }


def _fill(topic: Topic, held: int, megabytes: int) -> bool:
    """Append records of zeros up to so many megabytes, and give what the files have of them back to the file system;
    whether there is room."""
    template = frames.produce(topic.id, [0], *_zeros(MEGABYTE - 1000), acks=-1)
    while held < megabytes:
        step = min(SPARSE_STEP_MB, megabytes - held)
        free = os.statvfs(topic.target.broker.home)
        if free.f_bavail * free.f_frsize < 3 * step * MEGABYTE:
            return False
        generator.run(topic.target, [template], producers=1, inflight=5, requests=step, limit_s=600)
        held += step
        for path in sorted(topic.directories()[0].glob("*.log"))[:-1]:
            status = path.stat()
            if status.st_blocks * STAT_BLOCK_BYTES > status.st_size / 2 and shutil.which("fallocate"):
                subprocess.run(["fallocate", "--dig-holes", str(path)], check=False, stderr=subprocess.DEVNULL)
    return True


def _zeros(size: int) -> tuple[bytes, int]:
    """A batch with one record of so many zeros, and the number of its records."""
    builder = RecordBatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, bytes(size))
    return builder.build(), 1


def _look_up(topic: Topic, timestamp_ms: int) -> ListOffsetsRequest:
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic.name, partitions=[part])])


CURVES: dict[str, Callable[[], Iterator[Row]]] = {
    "connections": connections,
    "partitions": partitions,
    "topics": topics,
    "groups": groups,
    "data": data,
}


PANELS: tuple[tuple[str, str, float], ...] = (
    ("connections", "request on so many active ones", 0),
    ("connections", "memory of an idle one", 0),
    ("groups", "OffsetCommit", 0),
    ("partitions", "creation of one, user CPU", 0),
    ("partitions", "growth for one", 0),
    ("partitions", "restart, CPU", 1),
    ("topics", "creation of one, user CPU", 0),
    ("topics", "growth for one", 0),
    ("topics", "restart, CPU", 1),
    ("data", "one-record request", 0),
    ("data", "look-up by time", 0),
    ("data", "restart, CPU", 0),
)
"""The columns in the picture: curve, column, and how it should grow (0: not at all, 1: linearly)."""


def picture(text: str) -> str:
    """A recorded output as a picture; columns that it does not have are left out."""
    recorded = sections(text)
    panels = []
    for name, column, slope in PANELS:
        rows = _rows_of(recorded.get(name, ""))
        rows = [row for row in rows if row.get(column)]
        points = [(_number(row[name if name in row else "MB"]), _number(row[column])) for row in rows]
        points = [point for point in points if point[1] > 0]  # on a logarithmic axis
        if points:
            unit = rows[0][column].split()[-1]
            panels.append(Panel(f"{name}: {column}", {name: points}, unit, slope))
    return svg("How costs grow (dashed: constant, or linear)", panels, "docs/curves.txt")


def _rows_of(section: str) -> list[Row]:
    lines = [line.split(" | ") for line in section.splitlines() if " | " in line]
    head = [cell.strip() for cell in lines[0]] if lines else []
    return [dict(zip(head, (cell.strip() for cell in line), strict=True)) for line in lines[1:]]


def _number(cell: str) -> float:
    return float(cell.split(maxsplit=1)[0])


def sections(text: str) -> dict[str, str]:
    """The curves in a recorded output, by name."""
    found = re.split(rf"^(?=(?:{'|'.join(CURVES)}): )", text, flags=re.MULTILINE)
    return {part.partition(":")[0]: part.strip() for part in found if part.strip()}


def main(names: list[str], text: Path | None = None) -> int:
    """Measure these curves (all if none is named), print them, and with ``text`` write the output to a file, in which
    other curves stay."""
    unknown = set(names) - set(CURVES)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CURVES)}", file=sys.stderr)
        return 2
    known = sections(text.read_text()) if text is not None and text.exists() else {}
    for name in names or CURVES:
        out: list[str] = []
        facts = machine()
        load = f"load average before {facts['load_average'][0]:.1f}"
        head = f"{name}: {CURVES[name].__doc__} ({facts['when'][:10]}, {facts['cores']} cores, {facts['cpu']}, {load})"
        for line in _lines(head, CURVES[name]()):
            print(line, flush=True)
            out.append(line)
        print(flush=True)
        known[name] = "\n".join(out)
        if text is not None:
            text.write_text("\n\n".join(known[each] for each in CURVES if each in known) + "\n")
            text.with_suffix(".svg").write_text(picture(text.read_text()))
    return 0


def _lines(head: str, rows: Iterator[Row]) -> Iterator[str]:
    yield head
    yield ""
    widths: list[int] = []
    for row in rows:
        if not widths:
            widths = [max(len(column), 14) for column in row]
            yield " | ".join(f"{column:>{width}}" for column, width in zip(row, widths, strict=True))
            yield "-|-".join("-" * width for width in widths)
        yield " | ".join(f"{cell:>{width}}" for cell, width in zip(row.values(), widths, strict=True))
