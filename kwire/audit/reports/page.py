"""An audit as a page: one file that needs nothing else, and in which what records hold is text and nothing but text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

from kwire.audit.reports.pictures import COLOURS, partitions_picture, windows_picture
from kwire.audit.reports.text import printable, time
from kwire.audit.rows import FAULTS, MEANINGS, AuditRow, ContentRow, ExampleRow

_STYLE: Final = """
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;color:#1c1c1c;background:#fff;max-width:1000px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
.verdict{border-left:8px solid #2e7d32;background:#edf7ee;padding:.8rem 1rem;margin:1rem 0}
.verdict.bad{border-color:#b00020;background:#fdecee}.verdict.part{border-color:#8d6e00;background:#fff8e1}
.verdict b{font-size:1.3rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid #ddd;
vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}code,pre{font:13px/1.45 ui-monospace,monospace}pre{margin:0;white-space:pre-wrap;
overflow-wrap:anywhere}mark{background:#ffd54f;padding:0}
.dot{display:inline-block;width:.75em;height:.75em;border-radius:50%;margin-right:.4em}
svg{width:100%;height:auto;font:12px system-ui,sans-serif}svg line{stroke:#ddd}
.source{fill:#5b7db1}.copy{fill:#9ccc65}.key{font-size:.9rem;color:#555}
.key i{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
footer{margin:3rem 0 1rem;color:#555;font-size:.85rem}
"""
_KEY: Final = '<p class="key"><i style="background:#5b7db1"></i>source<i style="background:#9ccc65"></i>copy</p>'
_ORDERS: Final = {"none": "is not compared", "key": "of each key", "partition": "of each partition"}
_ROWS_MAX: Final = 200


def page(rows: Sequence[AuditRow]) -> str:
    """The page of one or several audits."""
    bodies = "\n".join(_audit(each) for each in rows)
    faulty = sum(each.is_faulty for each in rows)
    overview = _overview(rows) if len(rows) > 1 else ""
    title = "Audit: faults found" if faulty else f"Audit: {rows[0].verdict}" if rows else "Audit"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>{overview}{bodies}"
        "<footer>Made by kwire audit. Times are UTC.</footer></body></html>\n"
    )


def _overview(rows: Sequence[AuditRow]) -> str:
    cells = [
        (
            _text(each.source),
            _text(each.copy or ""),
            _text(each.verdict),
            _n(each.source_records),
            _n(each.copy_records),
        )
        for each in rows
    ]
    return "<h1>Audits</h1>" + _table(("source", "copy", "result", "#in the source", "#in the copy"), cells)


def _audit(row: AuditRow) -> str:
    """One audit."""
    names = _text(row.source) if row.copy is None else f"{_text(row.source)} and {_text(row.copy)}"
    parts = [f"<h1>{names}</h1>", _verdict(row), _faults(row)]
    if row.windows:
        parts.append(f"<h2>By window of {_length(row.window_ms)}</h2>{_KEY}{windows_picture(row.windows)}")
        parts.append(_windows(row))
    if row.partitions:
        parts.append(f"<h2>By partition</h2>{_KEY}{partitions_picture(row.partitions)}{_partitions(row)}")
    if row.keys:
        parts.append("<h2>Keys with most faults</h2>" + _table(("key", "#faults"), _keys(row)))
    if row.examples:
        parts.append("<h2>Examples</h2>" + "".join(map(_example, row.examples)))
    if row.producers:
        parts.append("<h2>Producers</h2>" + _producers(row))
    return "<section>" + "".join(parts) + "</section>"


def _verdict(row: AuditRow) -> str:
    kind = "bad" if row.verdict == FAULTS else "part" if row.confidence is not None else ""
    lines = [f"<b>{_text(row.verdict)}</b>"]
    if row.copy is None:
        lines.append(f"{row.source_records:,} records")
    else:
        lines.append(f"{row.source_records:,} records in the source, {row.copy_records:,} in the copy")
        lines.append(f"Compared: {_text(', '.join(row.compared))}. The order {_ORDERS[row.order]}.")
    if row.confidence is not None:
        lines.append(_text(row.confidence) + ".")
    if row.pending:
        lines.append(f"{row.pending:,} records are not in the copy yet and young enough for that.")
    lines.append(f"Begun {time(row.started_ms)}, {row.seconds:.1f} seconds.")
    return f'<div class="verdict {kind}">{"<br>".join(lines)}</div>'


def _faults(row: AuditRow) -> str:
    if not row.faults:
        return ""
    cells = [
        (f'<span class="dot" style="background:{COLOURS[kind]}"></span>{kind}', _n(count), MEANINGS[kind])
        for kind, count in row.faults.items()
    ]
    return "<h2>Faults</h2>" + _table(("kind", "#records", "meaning"), cells)


def _windows(row: AuditRow) -> str:
    faulty = [each for each in row.windows if each.faults]
    cells = [
        (time(each.start_ms), _n(each.source_records), _n(each.copy_records), _counts(each.faults)) for each in faulty
    ]
    return _table(("window with faults", "#source", "#copy", "faults"), cells) if cells else ""


def _partitions(row: AuditRow) -> str:
    differing = [each for each in row.partitions if each.faults]
    cells = [
        (str(each.partition), _n(each.source_records), _n(each.copy_records), _counts(each.faults))
        for each in differing
    ]
    return _table(("partition with faults", "#source", "#copy", "faults"), cells) if cells else ""


def _keys(row: AuditRow) -> Iterable[Sequence[str]]:
    return [
        (f"<code>{'<i>null</i>' if each.key is None else _text(printable(each.key))}</code>", _n(each.faults))
        for each in row.keys
    ]


def _example(example: ExampleRow) -> str:
    colour = COLOURS[example.kind]
    rows = []
    for end, content, other in (("source", example.source, example.copy), ("copy", example.copy, example.source)):
        if content is not None:
            stamp = "" if content.timestamp is None else time(content.timestamp)
            place = f"partition {content.partition}, {content.offset}"
            rows.append((end, _text(place), stamp, _key(content), _value(content, other)))
    table = _table(("", "where", "time", "key", "value"), rows)
    return f'<p><span class="dot" style="background:{colour}"></span><b>{example.kind}</b></p>{table}'


def _key(content: ContentRow) -> str:
    return "<i>null</i>" if content.key is None else f"<pre>{_text(printable(content.key))}</pre>"


def _value(content: ContentRow, other: ContentRow | None) -> str:
    """The value; what differs from the other end's is marked."""
    if content.value is None:
        return "<i>null</i>"
    text = content.value
    if other is None or other.value is None or other.value == text:
        return f"<pre>{_text(printable(text))}</pre>"
    first = next((i for i, (a, b) in enumerate(zip(text, other.value, strict=False)) if a != b), 0)
    least = min(len(text), len(other.value)) - first
    tail = next((i for i in range(least) if text[-1 - i] != other.value[-1 - i]), least)
    end = len(text) - tail
    before, differing, after = (_text(printable(each)) for each in (text[:first], text[first:end], text[end:]))
    return f"<pre>{before}<mark>{differing}</mark>{after}</pre>"


def _producers(row: AuditRow) -> str:
    cells = [
        (
            str(each.producer_id) if each.producer_id >= 0 else "without id",
            str(each.epoch),
            str(each.partition),
            _n(each.records),
            _n(each.aborted),
            f"{each.first_sequence} to {each.last_sequence}" if each.producer_id >= 0 else "",
            _n(each.missing),
            _n(each.repeated),
        )
        for each in row.producers[:_ROWS_MAX]
    ]
    heads = ("producer", "epoch", "partition", "#records", "#aborted", "sequences", "#missing", "#repeated")
    more = len(row.producers) - len(cells)
    return _table(heads, cells) + (f"<p>… and {more} more</p>" if more else "")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are HTML. A heading that begins with # is of numbers."""
    number = [each.startswith("#") for each in heads]

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if right else ''}>{each}</{tag}>" for each, right in zip(cells, number, strict=True)
        )

    body = "".join(f"<tr>{line(each, 'td')}</tr>" for each in rows)
    head = line([each.removeprefix("#") for each in heads], "th")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _counts(faults: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in faults.items())


def _length(milliseconds: int) -> str:
    for size, name in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")):
        if milliseconds >= size and milliseconds % size == 0:
            count = milliseconds // size
            return f"{count} {name}{'s' * (count > 1)}"
    return f"{milliseconds} ms"


def _n(count: int) -> str:
    return f"{count:,}"


def _text(text: str) -> str:
    return html.escape(text)
