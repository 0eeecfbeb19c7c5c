"""Configurations, as other registries have written them."""

from __future__ import annotations

import json

import pytest

from kwire.cli import main
from kwire.registry.operations.settings import delete_config, set_config, show_config
from kwire.registry.store import records
from kwire.registry.store.state import State


def state(subject: str | None) -> State:
    made = State()
    value = {"subject": subject, "compatibilityLevel": "FULL", "newer": {"a": 1}}
    made.apply(records.key(records.CONFIG, subject), json.dumps(value).encode())
    return made


@pytest.mark.parametrize("subject", [None, "orders-value"])
def test_what_a_newer_registry_writes_is_kept_and_its_subject_not_shown(subject: str | None) -> None:
    made = state(subject)
    shown = {"compatibilityLevel": "FULL", "newer": {"a": 1}}
    assert show_config(made, subject, default_to_global=False) == shown
    assert show_config(made, "orders-value", default_to_global=True) == shown
    assert delete_config(made, subject).answer == shown
    [record] = set_config(made, subject, {"compatibility": "none"}).records
    assert json.loads(record.value or b"") == {"subject": subject, "compatibilityLevel": "NONE", "newer": {"a": 1}}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--listen", "nonsense"], "--listen: 'nonsense' is not HOST:PORT"),
        (["--listen", "127.0.0.1:0", "--advertise", "nonsense"], "--advertise: 'nonsense' is not HOST:PORT"),
        (["--tls-cert", "none.pem"], "--tls-cert and --tls-key belong together"),
    ],
)
def test_wrong_options_are_status_2(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["registry", *words]) == 2
    assert capsys.readouterr() == ("", f"kwire: {reason}\n")
