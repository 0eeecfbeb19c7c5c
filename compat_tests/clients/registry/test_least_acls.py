"""The registry needs the ACLs that docs/SCHEMA_REGISTRY.md names; without one it ends with a line that names it."""

from __future__ import annotations

import re
from typing import Final

from compat_tests.clients.access.least import DONE, LISTENER, PRINCIPAL, login, with_one_less
from compat_tests.comparisons.access.acls import (
    CREATE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Acl,
    Acls,
)
from harness.paths import ROOT
from harness.processes.secured import SecuredBroker
from harness.registries.process import Registry, RegistryFailed

KINDS: Final = {"topic": TOPIC, "group": GROUP, "transactional-id": TRANSACTIONAL_ID}
OPERATIONS: Final = {"create": CREATE, "describe-configs": DESCRIBE_CONFIGS, "read": READ, "write": WRITE}
COMMAND: Final = re.compile(r"kwire acl add User:registry (.*) --(topic|group|transactional-id) (\S+)")


def needed(topic: str) -> dict[str, Acl]:
    """The guide's ACLs for a topic whose name is the group's as well, by what the registry says without each."""
    found = {}
    for operations, kind, name in COMMAND.findall((ROOT / "docs" / "SCHEMA_REGISTRY.md").read_text()):
        own = name.replace("schema-registry", topic).replace("_schemas", topic)
        for each in re.findall(r"--operation (\S+)", operations):
            operation = each.upper().replace("-", "_")
            error = f"{kind.upper().replace('-', '_')}_AUTHORIZATION_FAILED"
            said = f"kwire: {kind.replace('-', ' ')} {own}: the registry's login has no right to {operation} ({error})"
            found[said] = Acl(KINDS[kind], own, principal=PRINCIPAL, operation=OPERATIONS[each])
    return found


def test_the_registry_needs_the_acls_of_the_guide_and_names_the_one_that_is_missing(
    guarded: SecuredBroker, acls: Acls, topic: str
) -> None:
    options = [word for name, value in login("java", guarded).items() for word in ("-X", f"{name}={value}")]

    def attempt() -> str:
        try:
            registry = Registry(guarded.address(LISTENER), topic, *options)
        except RegistryFailed as failure:
            return str(failure)
        try:
            return DONE if registry.call("POST", "/subjects/s/versions", {"schema": '"int"'}).status == 200 else "?"
        finally:
            registry.close()

    always = needed(topic)
    [without_creation] = [said for said in always if "no right to CREATE" in said]
    creation = always.pop(without_creation)
    assert len(always) == 5
    acls.create(*always.values())
    assert attempt() == without_creation
    acls.create(creation)
    assert attempt() == DONE
    told = with_one_less(acls, always, attempt)  # the topic is there: CREATE is not needed any more
    assert told == {"all": DONE, **{said: said for said in always}}
