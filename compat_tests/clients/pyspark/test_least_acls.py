"""Spark's source and sink with the least ACLs that Spark's guide for Kafka names, and with one less.

The driver asks for offsets, which needs DESCRIBE on the topic; the executors need READ, which implies DESCRIBE. Neither
needs the group, except where offsets are fetched in the old way (`useDeprecatedOffsetFetching`): then the driver joins
a group, whose name begins with the query's prefix. A sink needs WRITE on its topic, and nothing for idempotence
(KIP-679).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.clients.access.least import LISTENER, PRINCIPAL, fill, login
from compat_tests.clients.pyspark.copies import AT_ONCE
from compat_tests.clients.pyspark.frames import Frames
from compat_tests.clients.pyspark.refusals import refusal
from compat_tests.comparisons.access.acls import DESCRIBE, GROUP, PREFIXED, READ, WRITE, Acl, Acls
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.secured import SecuredBroker

pytestmark = pytest.mark.java

Job = Callable[[], Any]
OLD_WAY: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
TOPIC_ERROR: Final = "org.apache.kafka.common.errors.TopicAuthorizationException"
GROUP_ERROR: Final = "org.apache.kafka.common.errors.GroupAuthorizationException"
_VARIABLE: Final = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}.*|-\d{4,5}$"
)  # Spark's part of a name, and a port


def topic_acl(name: str, operation: int) -> Acl:
    return Acl(name=name, principal=PRINCIPAL, operation=operation)


class Jobs:
    """Queries as `least.USER`, each with clients and a checkpoint of its own, on two topics with a record each."""

    def __init__(self, spark: Any, guarded: SecuredBroker, folder: Path, new_name: Names) -> None:
        self._spark = spark
        self._guarded = guarded
        self._address = guarded.address(LISTENER)
        self._folder = folder
        self._counter = itertools.count()
        self.source, self.target, self.prefix = new_name("source"), new_name("target"), new_name("prefix")
        self.group = (
            f"{self.prefix}-{guarded.ports[LISTENER]}"  # Spark keeps its consumer, by this name, for one address
        )
        fill(guarded, self.source, self.target)

    def read(self, **options: Any) -> None:
        """A batch query."""
        assert self._frames().read(self.source, **AT_ONCE, **options).count() == 1

    def copy(self) -> None:
        """A streaming query from the source to the target."""
        number = next(self._counter)
        frame = self._frames().read_stream(self.source, **AT_ONCE).select("value")
        assert self._frames(f"spark-{number}").run_available(frame, f"copy-{number}", self.target) == [1]

    def write(self) -> None:
        """A batch query that writes."""
        frames = self._frames(f"spark-{next(self._counter)}")
        frames.write(frames.texts(["text"]), self.target)

    def _frames(self, client_id: str = "") -> Frames:
        """``client_id``: of a producer, which Spark keeps for other queries with the same properties."""
        named = {"client.id": client_id} if client_id else {}
        return Frames(self._spark, self._address, self._folder, {**login("java", self._guarded), **named})


@pytest.fixture
def jobs(spark: Any, guarded: SecuredBroker, tmp_path: Path, new_name: Names) -> Jobs:
    return Jobs(spark, guarded, tmp_path, new_name)


@pytest.fixture
def old_way(spark: Any) -> Iterator[None]:
    """Offsets are fetched by a consumer in a group, as before Spark 3.1."""
    spark.conf.set(OLD_WAY, "true")
    yield
    spark.conf.unset(OLD_WAY)


def refused(job: Job, error: str) -> list[tuple[str, str]]:
    """The exceptions that the job ends with, the last of which is ``error``, and their texts."""
    told = refusal(job)
    assert told[-1][0] == error
    return [(exception, _VARIABLE.sub("N", text)) for exception, text in told]


def compare_one_less(
    acls: Acls, observe: Observations, needed: Mapping[str, Acl], job: Job, errors: Mapping[str, str]
) -> None:
    """The job succeeds with what it needs. Without each it ends with its error."""
    acls.create(*needed.values())
    job()
    for what, entry in needed.items():
        acls.delete(entry)
        observe(f"without {what}", refused(job, errors[what]))
        acls.create(entry)


def test_a_batch_source_needs_read(acls: Acls, jobs: Jobs, observe: Observations) -> None:
    needed = {"read": topic_acl(jobs.source, READ)}
    compare_one_less(acls, observe, needed, jobs.read, {"read": TOPIC_ERROR})


def test_describe_is_enough_for_the_driver_but_not_for_the_executors(
    acls: Acls, jobs: Jobs, observe: Observations
) -> None:
    acls.create(topic_acl(jobs.source, DESCRIBE), topic_acl(jobs.target, WRITE))
    observe("batch", refused(jobs.read, TOPIC_ERROR))
    observe("stream", refused(jobs.copy, TOPIC_ERROR))


def test_a_batch_sink_needs_write(acls: Acls, jobs: Jobs, observe: Observations) -> None:
    needed = {"write": topic_acl(jobs.target, WRITE)}
    compare_one_less(acls, observe, needed, jobs.write, {"write": TOPIC_ERROR})


def test_a_stream_needs_read_and_write(acls: Acls, jobs: Jobs, observe: Observations) -> None:
    needed = {"read": topic_acl(jobs.source, READ), "write": topic_acl(jobs.target, WRITE)}
    compare_one_less(acls, observe, needed, jobs.copy, dict.fromkeys(needed, TOPIC_ERROR))


@pytest.mark.usefixtures("old_way")
def test_the_old_way_to_offsets_needs_the_groups_of_the_prefix(acls: Acls, jobs: Jobs, observe: Observations) -> None:
    needed = {
        "read": topic_acl(jobs.source, READ),
        "groups": Acl(GROUP, jobs.prefix, PREFIXED, principal=PRINCIPAL, operation=READ),
    }
    errors = {"read": TOPIC_ERROR, "groups": GROUP_ERROR}
    compare_one_less(acls, observe, needed, lambda: jobs.read(groupIdPrefix=jobs.prefix), errors)


@pytest.mark.usefixtures("old_way")
def test_the_old_way_to_offsets_needs_the_group_that_the_query_names(
    acls: Acls, jobs: Jobs, observe: Observations
) -> None:
    needed = {
        "read": topic_acl(jobs.source, READ),
        "group": Acl(GROUP, jobs.group, principal=PRINCIPAL, operation=READ),
    }
    errors = {"read": TOPIC_ERROR, "group": GROUP_ERROR}
    compare_one_less(acls, observe, needed, lambda: jobs.read(**{"kafka.group.id": jobs.group}), errors)
