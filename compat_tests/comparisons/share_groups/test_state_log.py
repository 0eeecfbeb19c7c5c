"""The log of ``__share_group_state``: DumpLogSegments and ``kwire dump-log`` read the files of both brokers alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from compat_tests.comparisons.configs.requests import wait_until
from compat_tests.comparisons.share_groups.conftest import Tool
from compat_tests.comparisons.share_state.requests import ShareStates
from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker
from kwire.base.uuids import uuid_to_text
from kwire.cli.dump_log import dump

pytestmark = pytest.mark.java
_TIMES = re.compile(r'("(?:create|write)_?[tT]imestamp": ?)\d+')


@pytest.fixture
def states(broker: Broker, make_topic: Callable[..., str], new_name: Names) -> Iterator[ShareStates]:
    """A share partition with a snapshot of each kind and updates; at the end it is deleted."""
    made = ShareStates(broker, new_name("group"), make_topic())
    try:
        wait_until(lambda: made.find(made.key()) == "NONE")
        wait_until(lambda: made.delete(0)["error"] == "NONE")
        made.initialize(0, 1, 5)
        made.write(0, [(5, 9, 2, 1), (10, 14, 0, 3)], state_epoch=1, leader_epoch=3, complete=5)
        made.write(0, [(15, 15, 4, 5)], state_epoch=1, leader_epoch=3, start_offset=10, complete=1)
        made.initialize(0, 2, 40)
        made.delete(0)
        yield made
    finally:
        made.client.close()


def test_the_log_of_states_is_read_by_both_tools(
    states: ShareStates, tool: Tool, java: JavaRunner, broker: Broker, observe: Observations
) -> None:
    files = sorted(map(str, broker.data_dir.glob("__share_group_state-*/*.log")))
    options = ["--share-group-state-decoder", "--deep-iteration", "--files", ",".join(files)]
    dumped = java.tool("DumpLogSegments", *options).check().out
    kafkas = [_masked(line[line.index("key: ") :], states) for line in dumped.splitlines() if states.group in line]
    observe("DumpLogSegments", kafkas)
    assert len(kafkas) >= 5
    observe("kwire dump-log", [line for file in files for line in _records(file, states)])


def _records(file: str, states: ShareStates) -> list[str]:
    """The states' own records as ``kwire dump-log`` decodes them."""
    found = []
    for line in dump(file, records=True):
        text = json.dumps({name: line.get(name) for name in ("key", "value")}, default=str)
        if states.group in text:
            found.append(_masked(text, states))
    return found


def _masked(text: str, states: ShareStates) -> str:
    return _TIMES.sub(r"\1TIME", text).replace(uuid_to_text(states.topic_id), "TOPIC")
