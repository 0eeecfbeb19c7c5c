"""A short run of `campaigns/security_names.py`: names and JAAS texts mean what they mean to Java and Kafka."""

from __future__ import annotations

import pytest

from campaigns.security_names import run

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]


def test_java_and_kwire_read_the_same_names_and_texts() -> None:
    counts, differences = run(5000, seed=7)
    assert differences == []
    assert all(counts[f"{kind} equal"] > 100 for kind in ("dn", "ssl", "kerberos", "jaas", "file"))
