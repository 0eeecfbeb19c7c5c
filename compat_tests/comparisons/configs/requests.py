"""Requests about the configuration of one resource, and their responses as plain data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.waiting import PATIENCE_S
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages import alter_configs_request as replace
from kwire.codec.messages import incremental_alter_configs_request as incremental
from kwire.codec.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.list_config_resources_request import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Change = tuple[str, int, str | None]


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    return ErrorCode(code).name


class Configs:
    """A connection to a broker, with the requests about configuration."""

    def __init__(self, client: WireClient) -> None:
        self.client = client

    def create(self, name: str, configs: Mapping[str, str] | None = None, partitions: int = 1) -> str:
        """Create a topic."""
        texts = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=texts)
        response = self.client.call(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7).topics[0]
        assert response.error_code == 0, (response.error_code, response.error_message)
        wait_until(lambda: self.describe(TOPIC, name)["error"] == "NONE")
        return name

    def describe(
        self,
        kind: int,
        name: str,
        keys: list[str] | None = None,
        *,
        version: int = 4,
        synonyms: bool = True,
        documentation: bool = False,
    ) -> dict[str, Any]:
        """The whole response for a resource, with properties by name and without the text of the error message."""
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=synonyms, include_documentation=documentation
        )
        (result,) = self.client.call(request, version).results
        return {
            "error": error_name(result.error_code),
            "resource": [result.resource_type, result.resource_name],
            "count": len(result.configs),
            "configs": {entry.name: _entry(entry) for entry in result.configs},
        }

    def values(self, kind: int, name: str, source: int) -> dict[str, str | None]:
        """The values that come from one source."""
        configs = self.describe(kind, name)["configs"]
        return {key: entry["value"] for key, entry in configs.items() if entry["source"] == source}

    def change(self, kind: int, name: str, *changes: Change, validate_only: bool = False, version: int = 1) -> str:
        """IncrementalAlterConfigs of one resource: the name of its error."""
        configs = [
            incremental.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        return self.change_all([resource], validate_only, version)[0]

    def change_all(self, resources: list[Any], validate_only: bool = False, version: int = 1) -> list[str]:
        """IncrementalAlterConfigs of several resources: the names of their errors."""
        request = incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
        return [error_name(each.error_code) for each in self.client.call(request, version).responses]

    def replace(
        self,
        kind: int,
        name: str,
        texts: Iterable[tuple[str, str | None]],
        validate_only: bool = False,
        version: int = 2,
    ) -> str:
        """AlterConfigs of one resource: the name of its error."""
        configs = [replace.AlterableConfig(name=key, value=value) for key, value in texts]
        resource = replace.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = replace.AlterConfigsRequest(resources=[resource], validate_only=validate_only)
        (response,) = self.client.call(request, version).responses
        return error_name(response.error_code)

    def list(self, kinds: list[int], version: int = 1) -> list[Any]:
        """ListConfigResources: the error's name and the resources, sorted."""
        response = self.client.call(ListConfigResourcesRequest(resource_types=kinds), version)
        return [
            error_name(response.error_code),
            sorted([each.resource_type, each.resource_name] for each in response.config_resources),
        ]


def _entry(entry: Any) -> dict[str, Any]:
    return {
        "value": entry.value,
        "read_only": entry.read_only,
        "source": entry.config_source,
        "sensitive": entry.is_sensitive,
        "type": entry.config_type,
        "synonyms": [[each.name, each.value, each.source] for each in entry.synonyms],
        "documentation": entry.documentation if not entry.documentation else "some",
    }


def wait_until(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)
