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
import time
from collections import Counter
from typing import Final

from campaigns.command_line import campaign_parser
from harness.paths import ROOT
from harness.processes.java_oracle import JavaOracle
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
BATCH: Final = 500
DIFFERENCES_MAX: Final = 20
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


def run(cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Ask about so many cases; how many clients and addresses had a limit, and the differences."""
    counts: Counter[str] = Counter()
    differences: list[str] = []
    with JavaOracle(SOURCE) as oracle:
        for number, start in enumerate(range(0, cases, BATCH)):
            chance = random.Random(f"{seed}/{number}")
            batch = [Case(chance) for _ in range(min(BATCH, cases - start))]
            questions = [case.question() for case in batch]
            for case, question, theirs in zip(batch, questions, oracle.ask(questions), strict=True):
                ours = case.answer()
                counts["limited"] += sum(word != "-" for word in ours.split())
                counts["unlimited"] += ours.split().count("-")
                if ours != theirs:
                    differences.append(f"{question}: Kafka {theirs}, kwire {ours}")
            if len(differences) >= DIFFERENCES_MAX:
                break
    return counts, differences


def run_seeds(first: int, count: int) -> tuple[Counter[str], list[str]]:
    """`run` with a batch of cases for each seed from ``first`` on, until one has differences; for mutants."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        more, differences = run(BATCH, seed)
        counts += more
        if differences:
            return counts, differences
    return counts, []


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = campaign_parser("quotas.precedence", __doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="how many sets of quotas")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.monotonic()
    counts, differences = run(arguments.cases, arguments.seed)
    seconds = round(time.monotonic() - started, 1)
    summary = {"campaign": "quotas.precedence", "seed": arguments.seed, "seconds": seconds, "cases": arguments.cases}
    print(json.dumps({**summary, **counts, "different": len(differences)}))
    for difference in differences[:DIFFERENCES_MAX]:
        print(difference)
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main())
