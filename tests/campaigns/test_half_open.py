"""A small run of the campaign of half-open handshakes. It counts bytes; times depend on what else the machine does."""

from __future__ import annotations

import pytest

from campaigns import half_open
from kwire.net.newcomers import HELD_MAX

COUNT = 300
KEPT_KIB = 2 * HELD_MAX / 1024
"""What all of them together may take beside that: OpenSSL keeps a second copy of what it has received."""


@pytest.mark.parametrize(
    "kind", ["a hello where a certificate is required", "almost certificates of 24 KiB, TLS 1.2", "half a login"]
)
def test_unfinished_handshakes_and_logins_take_little_memory(kind: str) -> None:
    (outcome,) = half_open.run(COUNT, [kind], phase_s=0.2)
    each_kib = half_open.KIB_MAX
    assert outcome.kib_each * COUNT < COUNT * each_kib + (KEPT_KIB if "certificates" in kind else 0)
    assert outcome.refused == 0
