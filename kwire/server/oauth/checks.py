"""The checks of tokens that a broker's listeners make, and the life of the keys they need."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger
from kwire.security.oauth.settings import URL, SignedSettings, issuer_context
from kwire.security.oauth.signed import SignedTokens
from kwire.security.oauth.unsecured import UnsecuredRules, UnsecuredTokens
from kwire.server.errors import StartError
from kwire.server.oauth.fetch import FetchError, fetch
from kwire.server.oauth.keys import IssuerKeys, fetched_keys

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from kwire.base.doors import Doors
    from kwire.security.oauth.settings import KeysSettings
    from kwire.security.oauth.tokens import TokenCheck

    TokenSettings = SignedSettings | UnsecuredRules

_LOOPBACK: Final = ("http://localhost:", "http://localhost/", "http://127.0.0.1:", "http://127.0.0.1/", "http://[::1]")

_log = get_logger("kwire.server")


async def token_checks(
    doors: Doors, listeners: Mapping[str, TokenSettings], stack: AsyncExitStack
) -> dict[str, TokenCheck]:
    """The check of tokens for each listener. Fetches the keys once, and from now on again and again until the stack is
    left; listeners with the same settings share them. `StartError` if there are none; `ConfigError`."""
    shared: dict[str, IssuerKeys] = {}
    checks: dict[str, TokenCheck] = {}
    for listener, settings in listeners.items():
        if isinstance(settings, UnsecuredRules):
            _log.warning("any client can log in as any user: OAUTHBEARER tokens are not signed", listener=listener)
            checks[listener] = UnsecuredTokens(settings, doors.clock.time_ms)
            continue
        _warn(listener, settings)
        name = repr(settings.keys)
        if name not in shared:
            shared[name] = await _issuer_keys(doors, settings.keys, stack)
        checks[listener] = SignedTokens(settings.rules, shared[name], doors.clock.time_ms)
    return checks


async def _issuer_keys(doors: Doors, settings: KeysSettings, stack: AsyncExitStack) -> IssuerKeys:
    context = issuer_context(settings.url, settings.tls_options, doors.files)
    read = partial(fetch, settings.url, context, doors.files, doors.clock.monotonic)
    run = partial(doors.executor.run_apart, read)
    try:
        keys = await fetched_keys(run, settings, doors.clock)
    except FetchError as error:
        raise StartError(f"{URL}={settings.url}: {error}") from None
    issuer_keys = IssuerKeys(keys, run, settings, doors.clock)
    issuer_keys.start()
    stack.push_async_callback(issuer_keys.close)
    return issuer_keys


def _warn(listener: str, settings: SignedSettings) -> None:
    """Say at each start what makes the tokens of a listener less safe than they could be."""
    if settings.rules.issuer is None or not settings.rules.audiences:
        _log.warning(
            "tokens made for other services are accepted: set sasl.oauthbearer.expected.issuer and .expected.audience",
            listener=listener,
        )
    url = settings.keys.url
    if url.startswith("http:") and not url.startswith(_LOOPBACK):
        _log.warning("the keys of an OAuth issuer are fetched without TLS and can be forged: use https", url=url)
