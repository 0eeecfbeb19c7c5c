"""Format strings of `kwire consume`."""

from __future__ import annotations

import pytest

from kwire.cli.records.columns import Columns
from kwire.cli.records.escapes import unescaped
from kwire.cli.records.formats import compile_format

COLUMNS = Columns(
    "orders",
    3,
    [7, 8],
    [1_760_000_000_123, -1],
    [b"k", None],
    [b"caf\xc3\xa9", b"\xff"],
    {0: [("h", b"1"), ("n", None)]},
    9,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("%v\\n", b"caf\xc3\xa9\n\xff\n"),
        ("%s\\n", b"caf\xc3\xa9\n\xff\n"),
        ("%k %v\\n", b"k caf\xc3\xa9\n \xff\n"),
        ("%t-%p@%o;", b"orders-3@7;orders-3@8;"),
        ("%T\\t%T{iso}\\n", b"1760000000123\t2025-10-09T08:53:20.123Z\n-1\t\n"),
        ("%K %V %S,", b"1 5 5,-1 1 1,"),
        ("%v{hex} %k{hex}|", b"636166c3a9 6b|ff |"),
        ("%v{base64}|", b"Y2Fmw6k=|/w==|"),
        ("%v{json},%k{json}|", b'"caf\xc3\xa9","k"|{"base64": "/w=="},null|'),
        ("%h|", b"h=1,n=||"),
        ("%h{hex}|", b"h=31,n=||"),
        ("%h{json}|", b'[{"key": "h", "value": "1"}, {"key": "n", "value": null}]|[]|'),
        ("100%% %%{x}\\\\ é\\x41\\0", b"100% %{x}\\ \xc3\xa9A\0" * 2),
        ("", b""),
    ],
)
def test_each_verb_writes_its_field(text: str, written: bytes) -> None:
    assert compile_format(text)(COLUMNS) == written


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%x", "%x is none of the verbs %t %p %o %k %v %s %h %T %K %V %S"),
        ("%v{hexx}", "%v{hexx}: the modifier is none of {hex}, {base64}, {json}"),
        ("%o{hex}", "%o{hex}: this verb has no modifiers"),
        ("50%", "a format ends with a single %; %% is a percent sign"),
        ("\\q", "\\q is none of \\n, \\t, \\r, \\0, \\\\ and \\xHH"),
    ],
)
def test_a_wrong_format_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as refused:
        compile_format(text)
    assert str(refused.value) == reason


def test_what_is_not_utf_8_on_the_command_line_stays_as_it_is() -> None:
    assert unescaped("\udcff\\t") == b"\xff\t"
