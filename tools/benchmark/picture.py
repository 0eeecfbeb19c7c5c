"""The picture of a run, as SVG: a few lines of the table as bars, on a card of its own, so that it reads well on a
light and on a dark page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from tools.benchmark.results import HIGHER_IS_BETTER, Line, fact_text

WIDTH = 860
LEFT = 300
BAR = 370
ROW = 46
KWIRE, KAFKA = "#3b82f6", "#9aa4b2"

_STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de; }
  text { font: 13px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .head { font-size: 15px; font-weight: 600; }
  .small { font-size: 11px; fill: #59636e; }
  .ratio { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #161b22; stroke: #30363d; }
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
  }
"""


@dataclass(frozen=True)
class Chart:
    """Some lines compared by one fact each, under one heading."""

    title: str
    rows: tuple[tuple[str, str, str], ...]  # key, fact, label


CHARTS = (
    Chart(
        "Throughput (longer is better)",
        (
            ("headline", "records_s", "produce and consume at once, records/s"),
            ("produce-base", "records_s", "produce, 16 KiB batches, records/s"),
            ("produce-128k", "records_s", "produce, 128 KiB batches, records/s"),
            ("consume-1p", "records_s", "consume, records/s"),
            ("one-50", "requests_s", "one record a request, 50 connections, /s"),
        ),
    ),
    Chart(
        "Processor time of the broker (shorter is better)",
        (
            ("headline", "cpu_s_per_million", "produce and consume, per million records"),
            ("produce-base", "cpu_s_per_million", "produce, 16 KiB batches, per million"),
            ("produce-1m", "cpu_s_per_million", "produce, 1 MB batches, per million"),
            ("consume-6p", "cpu_s_per_million", "consume, 6 partitions, per million"),
            ("one-1", "cpu_s_per_thousand", "one record a request, per request"),
        ),
    ),
    Chart(
        "Latency, start, memory (shorter is better)",
        (
            ("open-1000", "p50_us", "acked at 1,000 records/s, p50"),
            ("open-1000", "p99_us", "acked at 1,000 records/s, p99"),
            ("start", "seconds", "start to the first answer"),
            ("memory-idle", "mb", "memory when idle"),
            ("memory-load", "mb", "memory after load"),
        ),
    ),
    Chart(
        "Processor time of TLS (shorter is better)",
        (
            ("tls-produce-16k", "cpu_tls_us", "produce over TLS, 16 KiB batches, per MB"),
            ("tls-consume", "cpu_tls_us", "consume over TLS, per MB"),
            ("tls-one-50", "cpu_tls_us", "one record a request over TLS"),
            ("tls-handshake-13", "cpu_tls_us", "connection with a TLS 1.3 handshake"),
            ("tls-login-scram-256", "cpu_tls_us", "login over TLS, SCRAM-SHA-256"),
        ),
    ),
)


def svg(lines: list[Line], footnote: str) -> str:
    """The picture; lines that were not measured are left out."""
    known = {line.workload.key: line for line in lines}
    out: list[str] = []
    y = 40
    for chart in CHARTS:
        rows = [row for row in chart.rows if row[0] in known and known[row[0]].ratio(row[1]) is not None]
        if not rows:
            continue
        out.append(f'<text class="head" x="24" y="{y}">{escape(chart.title)}</text>')
        out.append(f'<text class="small" x="{WIDTH - 24}" y="{y}" text-anchor="end">kwire is better by</text>')
        y += 14
        for key, fact, label in rows:
            out += _row(known[key], fact, label, y)
            y += ROW
        y += 30
    height = y + 14
    out.append(_legend(height - 22, footnote))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="kwire beside Apache Kafka">\n<style>{_STYLE}</style>\n'
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
        + "\n".join(out)
        + "\n</svg>\n"
    )


def _row(line: Line, fact: str, label: str, y: int) -> list[str]:
    ours, theirs, ratio = line.best("kwire", fact), line.best("kafka", fact), line.ratio(fact)
    assert ours is not None and theirs is not None and ratio is not None
    longest = max(ours, theirs) or 1.0
    out = [f'<text x="{LEFT - 12}" y="{y + 24}" text-anchor="end">{escape(label)}</text>']
    for at, (value, colour) in enumerate(((ours, KWIRE), (theirs, KAFKA))):
        width = max(BAR * value / longest, 2)
        top = y + 6 + at * 16
        out.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="13" rx="2" fill="{colour}"/>')
        out.append(f'<text class="small" x="{LEFT + width + 6:.1f}" y="{top + 10}">{fact_text(fact, value)}</text>')
    times = ratio if fact in HIGHER_IS_BETTER else 1 / ratio
    out.append(f'<text class="ratio" x="{WIDTH - 24}" y="{y + 24}" text-anchor="end">{times:.1f}x</text>')
    return out


def _legend(y: int, footnote: str) -> str:
    return (
        f'<rect x="24" y="{y - 10}" width="11" height="11" rx="2" fill="{KWIRE}"/><text x="41" y="{y}">kwire</text>'
        f'<rect x="96" y="{y - 10}" width="11" height="11" rx="2" fill="{KAFKA}"/>'
        f'<text x="113" y="{y}">Apache Kafka 4.3.1</text>'
        f'<text class="small" x="{WIDTH - 24}" y="{y}" text-anchor="end">{escape(footnote)}</text>'
    )
