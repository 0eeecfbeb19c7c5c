"""`Services` for tests of handlers that need a few of the broker's parts only."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from kwire.handlers.context import Authorizer, Quotas, Services
from kwire.quotas.managers import QuotaManagers


class Missing:
    """A part that a test does not have: using it is an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        raise AssertionError(f"this test has no services.{self._name} (its {attribute} was used)")

    def __call__(self, *_arguments: Any) -> Any:
        """Raise AssertionError: the test uses a service that it does not provide."""
        raise AssertionError(f"this test has no services.{self._name}")


def services_with(**parts: Any) -> Services:
    """Services with these parts; everything is authorised unless ``authorizer`` is given, and nobody has a quota unless
    ``quotas`` are given; all else is `Missing`."""
    missing: dict[str, Any] = {each.name: Missing(each.name) for each in fields(Services)}
    quotas = Quotas(lambda: QuotaManagers(lambda: 0.0))
    always = {"authorizer": Authorizer(), "quotas": quotas, "advertisements": {}}
    return Services(**{**missing, **always, **parts})
