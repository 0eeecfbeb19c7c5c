"""SCRAM credentials and delegation tokens in a simulated cluster whose controller dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.simulation import Simulation
from harness.simulation.cluster import PORT, SimulatedBroker, SimulatedCluster
from harness.simulation.workload import Client
from kwire.base.errors import ErrorCode
from kwire.cluster.metadata.image import ClusterImage
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.security.principals import Principal
from kwire.security.scram_credentials import ScramCredential, ScramMechanism, credential_of

ALICE = Principal("User", "alice")
TOKENS = {
    "delegation.token.secret.key": "key",
    "delegation.token.expiry.time.ms": "10000",
    "delegation.token.expiry.check.interval.ms": "1000",
}


def image_of(broker: SimulatedBroker) -> ClusterImage:
    assert broker.broker is not None
    return broker.broker.metadata.image


def images(cluster: SimulatedCluster) -> list[ClusterImage]:
    return [image_of(each) for each in cluster.brokers.values() if each.running]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - on a virtual clock
            await asyncio.sleep(0.05)


def controller_and_others(cluster: SimulatedCluster) -> tuple[SimulatedBroker, list[SimulatedBroker]]:
    controller = cluster.brokers[images(cluster)[0].controller_id]
    return controller, [each for each in cluster.brokers.values() if each is not controller]


def upsertion(salted_password: bytes) -> AlterUserScramCredentialsRequest:
    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=salted_password
    )
    return AlterUserScramCredentialsRequest(upsertions=[upsertion])


async def until_known(cluster: SimulatedCluster, credential: ScramCredential) -> None:
    await until(lambda: all(each.scram_credential(1, "alice") == credential for each in images(cluster)))


async def credentials_outlive_the_controller(simulation: Simulation) -> None:
    cluster = SimulatedCluster(simulation, 3)
    await cluster.start()
    client = Client(cluster, "client", 1)
    controller, others = controller_and_others(cluster)
    for password in (b"first", b"second"):
        answer = await client.call((others[0].host, PORT), upsertion(password), 0)
        assert [each.error_code for each in answer.results] == [ErrorCode.NONE]
        expected = credential_of(ScramMechanism.SHA_256, password, b"salt", 4096)
        assert image_of(others[0]).scram_credential(1, "alice") == expected
        await until_known(cluster, expected)
        if controller.running:
            controller.kill()
            await until(lambda: image_of(others[0]).controller_id not in (-1, controller.node_id))
    await controller.start()
    assert image_of(controller).scram_credentials == image_of(others[0]).scram_credentials
    await cluster.stop()


async def tokens_are_removed_by_the_next_controller(simulation: Simulation) -> None:
    cluster = SimulatedCluster(simulation, 3, TOKENS)
    await cluster.start()
    controller, others = controller_and_others(cluster)
    brokers = [each.broker for each in others]
    assert all(brokers)
    tokens, same = (each.controller.delegation_tokens for each in brokers if each is not None)
    long, short = [await others[0].within(tokens.create(ALICE, ALICE, [], lifetime_ms)) for lifetime_ms in (-1, 3000)]
    assert tokens.hmac(long.id) == same.hmac(long.id)
    controller.kill()
    await until(lambda: image_of(others[0]).controller_id in [each.node_id for each in others])
    await until(lambda: all(short.id not in each.delegation_tokens for each in images(cluster)))
    assert all(long.id in each.delegation_tokens for each in images(cluster))
    expiry_ms = await others[1].within(same.renew(same.hmac(long.id), ALICE, -1))
    assert expiry_ms > long.expiry_ms
    await until(lambda: not any(each.delegation_tokens for each in images(cluster)))
    assert simulation.time_ms() > expiry_ms
    await cluster.stop()


def test_credentials_outlive_the_controller() -> None:
    for seed in range(3):
        simulation = Simulation(seed)
        simulation.run(credentials_outlive_the_controller(simulation))


def test_expired_tokens_are_removed_whoever_is_the_controller() -> None:
    for seed in range(3):
        simulation = Simulation(seed)
        simulation.run(tokens_are_removed_by_the_next_controller(simulation))
