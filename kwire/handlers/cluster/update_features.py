"""UpdateFeatures (API key 57): have the cluster use other levels of features, all that are asked for or none (KIP-584).

Behaviour:

- INVALID_UPDATE_VERSION for the whole request, with the first reason: a level that the controller or a registered
  broker does not support (a feature nobody knows is supported at level 0 only), a negative one, a downgrade that is not
  asked for as one, an upgrade that is, an unknown type; `metadata.version` is never taken back.
- the level that is finalised already is fine, as is an empty request; of several updates of one feature the last one
  counts.
- ``timeout_ms`` that is not positive is not taken for one that is over.

Versions: 0 ``allow_downgrade``, which Kafka does not read any more: it takes no downgrade; 1 upgrade types and
``validate_only`` (KIP-778); 2 no results by feature (KIP-1022).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.features import UPGRADE, FeatureUpdate
from kwire.codec.messages.update_features_request import UpdateFeaturesRequest
from kwire.codec.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType

ALLOWED = (Operation(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),)


def operations(request: UpdateFeaturesRequest, context: RequestContext) -> tuple[Operation, ...]:
    return ALLOWED


async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    version = context.api_version
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type if version >= 1 else UPGRADE)
        for each in request.feature_updates
    ]
    try:
        await context.services.controller.update_features(
            updates,
            validate_only=request.validate_only,
            timeout_ms=request.timeout_ms if request.timeout_ms > 0 else None,
        )
    except KafkaError as error:
        return refuse(request, version, error.code, error.message)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=update.name, error_message=ErrorCode.NONE.name)
            for update in (updates if version <= 1 else ())
        ],
    )


def refuse(
    request: UpdateFeaturesRequest, version: int, code: ErrorCode, message: str | None
) -> UpdateFeaturesResponse:
    """The error for the whole; results by feature are there only where all went well."""
    return UpdateFeaturesResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.UPDATE_FEATURES, served=(0, 2), handle=handle, operations=operations, error_response=refuse,
    by_controller=True,
)  # fmt: skip
