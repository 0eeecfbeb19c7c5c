"""A secured broker of the test fixtures, and how clients log in to it."""

from __future__ import annotations

from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.testing.blocking_client import BlockingClient
from kwire.testing.secured import SecuredProcess


def test_names_and_passwords_of_users_may_have_any_characters() -> None:
    user, password = 'o"Brien; a=\\b', 'p"w;=\\ x'
    with (
        SecuredProcess(users={user: password}) as broker,
        BlockingClient(broker.bootstrap_servers, properties=broker.logins.properties(user)) as client,
    ):
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
    broker.remove_certificates()
