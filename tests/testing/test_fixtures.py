"""The pytest plugin as a user's project has it: every test here runs a pytest of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import PATIENCE_S
from kwire.testing import KwireProcess, KwireStartError
from kwire.testing.control import ControlError

pytest_plugins = ["pytester"]

PLUGINS = ("-p", "kwire.testing.pytest_plugin", "-p", "no:cacheprovider")  # found by its entry point: users_project


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading what else is installed here would take longer than the tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture(scope="module")
def broker() -> Iterator[KwireProcess]:
    with KwireProcess() as broker:
        yield broker


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*PLUGINS, *arguments, timeout=200)


def test_a_test_gets_a_broker_fresh_names_and_topics(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kwire.testing.topics import TopicError

        def test_names(kwire):
            assert len({kwire.name(), kwire.name(), kwire.name("group")}) == 3
            assert str(kwire) == kwire.bootstrap_servers
            kwire.topic(partitions=3, config={"cleanup.policy": "compact"})

        def test_what_the_broker_refuses_is_told(kwire):
            with pytest.raises(TopicError, match="INVALID_CONFIG: .*cleanup.policy"):
                kwire.topic(config={"cleanup.policy": "burn"})

        def test_a_fault_is_forgotten_after_its_test(kwire):
            kwire.fail_next("CreateTopics", "NOT_CONTROLLER", times=5)
            with pytest.raises(TopicError, match="NOT_CONTROLLER"):
                kwire.topic()
            kwire.pause("Metadata")

        def test_here(kwire):
            assert kwire.failures_left() == {}
            kwire.topic()
        """
    )
    run(pytester).assert_outcomes(passed=4)


def test_properties_come_from_the_command_line_before_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkwire_set =\n    num.partitions=3\n    node.id=5\n")
    pytester.makepyfile(
        """
        def test_properties(kwire_proc):
            assert kwire_proc.properties["num.partitions"] == "7"
            assert kwire_proc.properties["node.id"] == "5"
        """
    )
    run(pytester, "--kwire-set", "num.partitions=7").assert_outcomes(passed=1)


def test_a_broker_that_does_not_start_is_told_with_its_words(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(kwire): pass")
    result = run(pytester, "--kwire-set", "num.partitions=many")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*kwire ended with status 1*num.partitions=many*", "*kwire: num.partitions=many*"])
    result = run(pytester, "--kwire-set", "num.partitions")
    result.stdout.fnmatch_lines(["*--kwire-set 'num.partitions' is not NAME=VALUE*"])


def test_every_worker_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pathlib, time

        def at_once(name, kwire, kwire_proc):
            pathlib.Path(name).write_text(f"{kwire_proc.pid} {kwire.topic()}")
            while not pathlib.Path("a").exists() or not pathlib.Path("b").exists():
                time.sleep(0.01)

        def test_a(kwire, kwire_proc): at_once("a", kwire, kwire_proc)
        def test_b(kwire, kwire_proc): at_once("b", kwire, kwire_proc)
        """
    )
    run(pytester, "-p", "xdist", "-n", "2").assert_outcomes(passed=2)
    told = [(pytester.path / name).read_text().split() for name in "ab"]
    assert len({pid for pid, _ in told}) == len({topic for _, topic in told}) == 2


def test_a_broker_that_runs_already_is_used(pytester: pytest.Pytester, broker: KwireProcess) -> None:
    pytester.makepyfile(
        f"""
        import pytest
        from kwire.testing.broker import NoControl

        def test_it(kwire, kwire_noproc):
            assert kwire.bootstrap_servers == kwire_noproc.bootstrap_servers == "{broker.bootstrap_servers}"
            kwire.topic()
            with pytest.raises(NoControl, match="was not started by these fixtures"):
                kwire.pause()
        """
    )
    result = run(pytester, "--kwire-bootstrap", broker.bootstrap_servers)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"kwire: using the broker at {broker.bootstrap_servers}"])


def test_a_broker_that_should_run_and_does_not_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(kwire_noproc): pass")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no address: give --kwire-bootstrap HOST:PORT*"])
    result = run(pytester, "--kwire-bootstrap", "127.0.0.1:1")
    result.stdout.fnmatch_lines(["*no Kafka broker answers at 127.0.0.1:1: *refused*"])


def test_a_project_makes_fixtures_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        from kwire.testing import factories

        five_proc = factories.kwire_proc({"num.partitions": "5"})
        five = factories.kwire("five_proc")
        """
    )
    pytester.makepyfile(
        """
        def test_it(five, five_proc, kwire):
            assert five_proc.properties["num.partitions"] == "5"
            assert five.bootstrap_servers != kwire.bootstrap_servers
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_a_process_is_killed_and_goes_on_with_its_data() -> None:
    broker = KwireProcess({"auto.create.topics.enable": "false"})
    broker.start()
    data_dir, pid = broker.data_dir, broker.pid
    broker.kill()
    broker.start()
    assert (broker.data_dir, broker.pid != pid) == (data_dir, True)
    assert broker.host in ("localhost", "127.0.0.1", "::1")
    assert broker.port > 0
    assert broker.control.failures_left() == {}
    assert broker.stop() == 0
    assert not data_dir.exists()


def test_a_control_that_was_turned_off_is_told() -> None:
    with (
        KwireProcess({"kwire.test.control": "false"}) as broker,
        pytest.raises(ControlError, match="is there a broker"),
    ):
        broker.control.pause()


def test_a_broker_that_is_not_ready_in_time_is_ended() -> None:
    broker = KwireProcess(timeout_s=0.001)
    with pytest.raises(KwireStartError, match=r"is not ready after 0\.001 s"):
        broker.start()
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.pid


def test_a_broker_ends_with_the_process_that_started_it() -> None:
    program = (
        "import time\n"
        "from kwire.testing import KwireProcess\n"
        "broker = KwireProcess()\n"
        "broker.start()\n"
        "print(broker.pid, broker.data_dir.parent, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    number, home = parent.stdout.readline().split()
    pid = int(number)
    parent.send_signal(signal.SIGKILL)
    parent.communicate(timeout=60)
    deadline = time.monotonic() + PATIENCE_S
    while _runs(pid):
        assert time.monotonic() < deadline, "the broker is still there"
        time.sleep(0.02)
    shutil.rmtree(home)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_secured_broker_has_a_certificate_and_users(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kwire.codec.messages.metadata_request import MetadataRequest
        from kwire.testing.blocking_client import BlockingClient

        def test_login(kwire_secure):
            topic = kwire_secure.topic("orders", partitions=2)
            for user in kwire_secure.users:
                with BlockingClient(kwire_secure.bootstrap_servers, properties=kwire_secure.properties(user)) as client:
                    assert topic in [each.name for each in client.call(MetadataRequest(topics=None), 9).topics]

        def test_a_wrong_password(kwire_secure):
            properties = kwire_secure.properties("alice")
            password = kwire_secure.users["alice"]
            assert password in properties["sasl.jaas.config"]
            properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(password, "wrong")
            with pytest.raises(PermissionError, match="login failed: Authentication failed: Invalid username or pass"):
                BlockingClient(kwire_secure.bootstrap_servers, properties=properties)

        def test_passwords_are_not_in_the_log(kwire_secure, kwire_secure_proc):
            assert not any(password in kwire_secure_proc.log_text() for password in kwire_secure.users.values())

        def test_the_arguments_of_clients(kwire_secure):
            assert kwire_secure.kafka_python("bob")["sasl_plain_password"] == kwire_secure.users["bob"]
            assert kwire_secure.librdkafka("bob")["sasl.password"] == kwire_secure.users["bob"]
            assert kwire_secure.ca_path.read_text().startswith("-----BEGIN CERTIFICATE-----")
        """
    )
    run(pytester).assert_outcomes(passed=4)
