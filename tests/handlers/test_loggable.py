"""The request log shows no secrets."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kwire.codec.message import Struct
from kwire.codec.messages.alter_configs_request import AlterableConfig as OldAlterableConfig
from kwire.codec.messages.alter_configs_request import AlterConfigsRequest
from kwire.codec.messages.alter_configs_request import AlterConfigsResource as OldAlterConfigsResource
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from kwire.codec.messages.envelope_request import EnvelopeRequest
from kwire.codec.messages.envelope_response import EnvelopeResponse
from kwire.codec.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.handlers.loggable import loggable

TOPIC, BROKER = 2, 4
SECRET = b"s3cret"


def incremental(resource_type: int, name: str, value: str | None) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=name, value=value)
    resource = AlterConfigsResource(resource_type=resource_type, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(auth_bytes=SECRET),
        SaslAuthenticateResponse(auth_bytes=SECRET),
        AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion(salted_password=SECRET)]),
        CreateDelegationTokenResponse(hmac=SECRET),
        DescribeDelegationTokenResponse(tokens=[DescribedDelegationToken(hmac=SECRET)]),
        RenewDelegationTokenRequest(hmac=SECRET),
        ExpireDelegationTokenRequest(hmac=SECRET),
        incremental(BROKER, "ssl.keystore.password", "s3cret"),
        incremental(BROKER, "listener.name.x.plain.sasl.jaas.config", "s3cret"),
        incremental(BROKER, "an.unknown.property", "s3cret"),
        incremental(TOPIC, "sasl.jaas.config", "s3cret"),
        AlterConfigsRequest(
            resources=[
                OldAlterConfigsResource(
                    resource_type=BROKER, configs=[OldAlterableConfig(name="ssl.key.password", value="s3cret")]
                )
            ]
        ),
    ],
)
def test_secrets_are_hidden(message: Struct) -> None:
    before = deepcopy(message)
    assert "s3cret" not in loggable(message)
    assert message == before


@pytest.mark.parametrize(
    "message",
    [
        incremental(BROKER, "num.io.threads", "8"),
        incremental(BROKER, "ssl.keystore.password", None),
        incremental(TOPIC, "cleanup.policy", "compact"),
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")])]
        ),
        None,
    ],
)
def test_all_else_is_shown(message: Any) -> None:
    assert loggable(message) == repr(message)


@pytest.mark.parametrize("message", [EnvelopeRequest(request_data=SECRET), EnvelopeResponse(response_data=SECRET)])
def test_what_an_envelope_carries_is_not_shown(message: Any) -> None:
    assert "s3cret" not in loggable(message)
    assert "<6 bytes>" in loggable(message)
