"""The cases of aiokafka's own tests of SASL that are not about access control, in this project's words.

aiokafka's source package has no tests, so that they cannot be run as they are, as the suites of `compat_tests/suites`
are. The cases: produce and consume in a group, and describe the cluster with the admin client, with PLAIN,
SCRAM-SHA-256 and GSSAPI (for which see `test_kerberos`). For the others, which deny operations by ACLs, see
`compat_tests.clients.access`.
"""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from compat_tests.clients.security.options import options_of
from compat_tests.clients.security.test_logins import security_for
from compat_tests.names import Names
from harness.processes.secured import MECHANISMS, SecuredBroker
from harness.waiting import PATIENCE_S

Options = dict[str, object]


@pytest.fixture(params=[(way, name) for way in ("SASL_PLAINTEXT", "SASL_SSL") for name in MECHANISMS], ids="-".join)
def login(request: pytest.FixtureRequest, secured: SecuredBroker) -> Options:
    """The options of a client that logs in."""
    listener, mechanism = request.param
    options = options_of("aiokafka", security_for(secured, listener, mechanism))
    return {"bootstrap_servers": [secured.address(listener)], **options}


def test_a_group_consumes_what_was_produced(login: Options, new_name: Names) -> None:
    topic, group = new_name("topic"), new_name("group")

    async def run() -> bytes:
        async with AIOKafkaProducer(**login) as producer:
            await producer.send_and_wait(topic, b"a message")
        options = {"group_id": group, "enable_auto_commit": True, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **login, **options) as consumer:
            value: bytes = (await consumer.getone()).value
            return value

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == b"a message"


def test_the_admin_client_describes_the_cluster(login: Options) -> None:
    async def run() -> int:
        admin = AIOKafkaAdminClient(**login)
        await admin.start()
        try:
            return len((await admin.describe_cluster())["brokers"])
        finally:
            await admin.close()

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == 1
