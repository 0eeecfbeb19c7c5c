"""UpdateFeatures (API key 57): change the finalised levels of features, all of those requested or none (KIP-584).

Behaviour:

- INVALID_UPDATE_VERSION for the whole request, with the first reason: a level that the controller or a registered
  broker does not support (an unknown feature is supported at level 0 only), a negative level, a downgrade that is not
  requested as one, an upgrade requested as a downgrade, an unknown upgrade type. `metadata.version` is never
  downgraded.
- A level that is finalised already is accepted, as is an empty request. Of several updates of one feature, the last one
  counts.
- A ``timeout_ms`` that is not positive means no time-out.

Versions: 0 ``allow_downgrade``, which Kafka no longer reads: no downgrades; 1 upgrade types and ``validate_only``
(KIP-778); 2 no results by feature (KIP-1022).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.features import UPGRADE, FeatureUpdate
from kwire.codec.messages.update_features_request import UpdateFeaturesRequest
from kwire.codec.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: UpdateFeaturesRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


async def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    """Have the controller change the levels."""
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
    """A top-level error; there are results by feature only on success."""
    return UpdateFeaturesResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.UPDATE_FEATURES,
    served=(0, 2),
    handle=handle,
    operations=operations,
    error_response=refuse,
    by_controller=True,
)
