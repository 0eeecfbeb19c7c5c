from __future__ import annotations

import pytest

from kwire.sql.topics.spans import Span, parse, to_json

SNAPSHOT = {"orders": {0: Span(0, 1200), 10: Span(5, 5)}, "a.b": {0: Span(1, 2**62)}}


def test_what_is_printed_is_read_again() -> None:
    assert parse(to_json(SNAPSHOT)) == SNAPSHOT
    assert to_json({"orders": {0: Span(0, 3)}}) == '{"orders": {"0": [0, 3]}}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "JSON like"),
        ("[]", "JSON like"),
        ('{"orders": 3}', "offsets of orders"),
        ('{"orders": {"x": [0, 1]}}', "'x' is not the number of a partition"),
        ('{"orders": {"0": [2, 1]}}', "orders-0"),
        ('{"orders": {"0": [0]}}', "orders-0"),
        ('{"orders": {"0": [-1, 1]}}', "orders-0"),
        ('{"orders": {"0": [true, 1]}}', "orders-0"),
        ('{"orders": {"99999999999": [0, 1]}}', "not the number"),
    ],
)
def test_what_is_wrong_is_named(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"offsets|partition") as caught:
        parse(text)
    assert reason in str(caught.value)
