"""ApiVersions (API key 18): which APIs in which versions, and which features.

Behaviour:

- The list is derived from the declarations of all handlers (`registry`); an API that kwire does not fully serve is not
  in it.
- A version that this broker does not know gets a response of version 0 with UNSUPPORTED_VERSION and the versions of
  ApiVersions, whatever the body says (KIP-511).
- From version 3 on, a malformed name or version of the client software gets INVALID_REQUEST with an empty list
  (KIP-511).
- The response is made and encoded once for each version, until the cluster's image changes: clients ask this with every
  connection.
- A feature is supported only if this broker supports all of it (`kwire.cluster.metadata.features`). The finalised
  features are those of the cluster's image, without those at level 0.

Versions: 1 throttle time; 3 flexible, client software (KIP-511), features (KIP-584) except those whose lowest level is
0, which clients before version 4 cannot read (KIP-1022); 4 all features.
"""

from __future__ import annotations

import re
from typing import Final

from kwire.base.errors import ErrorCode
from kwire.cluster.metadata.features import OWN_PREFIX
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kwire.codec.protocol import ApiKey, encode
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext, Services

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    """List the APIs and features, and remember the client's software."""
    version = context.api_version
    if version >= 3:
        name, software = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(software)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.software_name, context.software_version = name, software
    if context.services.quotas.active:  # the response may say for how long the client is throttled
        return _listing(version, context.services)
    image = context.services.image
    known = context.services.advertisements.get(version)
    if known is None or known[0] is not image:
        response = _listing(version, context.services)
        known = context.services.advertisements[version] = image, response, encode(response, version)
    context.charged = [known[2]]
    return known[1]


def _listing(version: int, services: Services) -> ApiVersionsResponse:
    image = services.image
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in services.advertised_apis
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in services.supported_features.items()
            if low > 0 or version >= 4
        ],
        finalized_features_epoch=image.revision,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in image.features.items()
            if level and not name.startswith(OWN_PREFIX)
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    """The response (of version 0) to a request whose version this broker does not know."""
    low, high = API.served
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)],
    )


API = Api(ApiKey.API_VERSIONS, served=(0, 4), handle=handle)
