"""Random quotas and clients through a broker's classes of Apache Kafka and kwire's `ClientLimits`: no difference is
allowed.

    .venv/bin/python -m campaigns.quotas.precedence --cases 100000 --seed 1

A case is a set of up to 12 entities with limits, which becomes that of the cluster, six clients and two addresses. For
each client Kafka's `ClientQuotaManager` must have the same limit for the key in question, and measure the usage of the
same user and client id; for each address its `ConnectionQuotas` must have the same limit. The names are few, so that
several levels of precedence apply to a client. A line of JSON is printed, then the first differences. The exit status
is 1 if there is any.
"""

from __future__ import annotations

import json
import random
from typing import Final

from campaigns.java.oracle import OracleCampaign
from harness.paths import ROOT
from kwire.quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)
from kwire.quotas.limits import ClientLimits, Limit

SOURCE: Final = ROOT / "campaigns" / "java" / "QuotaOracle.java"
KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
USERS: Final = ("alice", "bob", "<default>", "CN=x, O=y*", "é%")
CLIENT_IDS: Final = ("app", "b", "<default>", "a/b:ä%")
ADDRESSES: Final = (("10.0.0.1", "::ffff:10.0.0.1"), ("::1", "0:0:0:0:0:0:0:1"), ("2001:db8::a", "2001:DB8:0:0::A"))
"""Addresses, each in two ways of writing it."""


class Case:
    """All quotas of a cluster, with clients and addresses."""

    def __init__(self, chance: random.Random) -> None:
        keys = chance.sample(KEYS, chance.choice((1, 1, 2)))
        kinds = chance.sample(((USER,), (CLIENT_ID,), (USER, CLIENT_ID)), chance.choice((1, 2, 3)))
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        for number in range(chance.randrange(13)):
            names = {kind: _name(chance, kind) for kind in chance.choice(kinds)}
            quotas = self.quotas.setdefault(QuotaEntity.of(names), {})
            quotas[chance.choice(keys)] = number + 1.0
        for number, writings in enumerate(chance.sample((*ADDRESSES, (None,)), chance.randrange(3)), 20):
            self.quotas[QuotaEntity.of({IP: chance.choice(writings)})] = {CONNECTION_CREATION_RATE: float(number)}
        self.clients = [
            (chance.choice(keys), chance.choice((*USERS, "")), chance.choice((*CLIENT_IDS, ""))) for _ in range(6)
        ]
        self.addresses = [chance.choice(chance.choice(ADDRESSES)) for _ in range(2)]

    def question(self) -> str:
        """The line that asks Java."""
        quotas = [[entity.names, limits] for entity, limits in self.quotas.items()]
        return json.dumps([quotas, self.clients, self.addresses])

    def answer(self) -> str:
        """kwire's answer, in the oracle's form."""
        limits = ClientLimits(self.quotas)
        words = [_word(limits.limit(*client)) for client in self.clients]
        for address in self.addresses:
            limit = limits.ip_limit(address)
            words.append("-" if limit is None else str(int(limit)))
        return " ".join(words)


def _name(chance: random.Random, kind: str) -> str | None:
    return None if chance.random() < 0.4 else chance.choice(USERS if kind == USER else CLIENT_IDS)


def _word(limit: Limit | None) -> str:
    if limit is None:
        return "-"
    return f"{int(limit.value)}{'u' * (limit.user is not None)}{'c' * (limit.client_id is not None)}"


def _counts(answer: str) -> dict[str, int]:
    words = answer.split()
    return {"limited": len(words) - words.count("-"), "unlimited": words.count("-")}


CAMPAIGN: Final = OracleCampaign("quotas.precedence", __doc__, SOURCE, Case, _counts, "quotas")
run, run_seeds = CAMPAIGN.run, CAMPAIGN.run_seeds

if __name__ == "__main__":
    raise SystemExit(CAMPAIGN.main())
