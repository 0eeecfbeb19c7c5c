"""Places in a partition as people write them."""

from __future__ import annotations

import pytest

from kwire.cli.positions import Kind, Position, parse_position

NOW_MS = 1_760_000_000_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(Kind.EARLIEST)),
        ("Latest", Position(Kind.LATEST)),
        ("0", Position(Kind.OFFSET, 0)),
        ("9223372036854775807", Position(Kind.OFFSET, 2**63 - 1)),
        ("-10", Position(Kind.BEFORE_END, 10)),
        ("@1760000000001", Position(Kind.TIME, NOW_MS + 1)),
        ("10 minutes ago", Position(Kind.TIME, NOW_MS - 600_000)),
        ("1 hour ago", Position(Kind.TIME, NOW_MS - 3_600_000)),
        ("2d ago", Position(Kind.TIME, NOW_MS - 2 * 86_400_000)),
        ("999999999999 weeks ago", Position(Kind.TIME, 0)),
        ("2025-10-09T08:53:20Z", Position(Kind.TIME, NOW_MS)),
        ("2025-10-09 08:53:20.5+00:00", Position(Kind.TIME, NOW_MS + 500)),
    ],
)
def test_positions_are_understood(text: str, position: Position) -> None:
    assert parse_position(text, NOW_MS) == position


@pytest.mark.parametrize("text", ["", "soon", "9223372036854775808", "10 parsecs ago", "@", "--1", "2025-13-01", "1e3"])
def test_others_are_refused_with_what_is_understood(text: str) -> None:
    with pytest.raises(ValueError, match="is not a position: earliest, latest, an offset"):
        parse_position(text, NOW_MS)
