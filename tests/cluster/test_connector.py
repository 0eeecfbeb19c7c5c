"""Connections that log in to a broker: one that does not respond is given up."""

from __future__ import annotations

import pytest

from harness.simulation.world import Simulation
from kwire.cluster.connector import LOGIN_MAX_S, Connector
from kwire.security.client import client_security

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_broker_that_does_not_answer_a_login_is_given_up() -> None:
    simulation = Simulation(1)
    security = client_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="broker" password="secret";',
        }
    )

    async def main() -> None:
        doors = simulation.machine("host").doors
        silent = doors.sockets.listen("", 9092, 10, -1)
        began = simulation.elapsed_s
        with pytest.raises(TimeoutError, match="the login takes too long"):
            await Connector(doors, security).connect("host", 9092, "test")
        assert simulation.elapsed_s - began == pytest.approx(LOGIN_MAX_S, abs=0.1)
        silent.close()

    simulation.run(main())
