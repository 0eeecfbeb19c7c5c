"""Measure how fast payloads become columns by their schemas, without a broker.

    .venv/bin/python -m tools.sql_speed.payloads

Records of three fields (a long, a string, a double), in batches of 10,000, on one core: records a second of CPU time,
the best of three rounds.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Final

import pyarrow as pa

from kwire.arrow.payloads.columns import PayloadColumn, shape_of
from kwire.schemas import Schema, parse, wire

_BATCH: Final = 10_000
_ROUNDS: Final = 3
_FIELDS: Final = (("id", "long", "integer"), ("region", "string", "string"), ("amount", "double", "number"))
_PROTOBUF: Final = 'syntax = "proto3"; message Order { int64 id = 1; string region = 2; double amount = 3; }'


def schemas() -> list[Schema]:
    """The same record in all three types of schemas."""
    avro = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": name, "type": kind} for name, kind, _ in _FIELDS],
    }
    document = {"type": "object", "properties": {name: {"type": kind} for name, _, kind in _FIELDS}}
    return [parse(json.dumps(avro)), parse(json.dumps(document), "JSON"), parse(_PROTOBUF, "PROTOBUF")]


def rate(schema: Schema, records: int) -> float:
    """Records a second of CPU time."""
    bodies = (schema.encode({"id": n, "region": f"region {n % 7}", "amount": n / 4}) for n in range(_BATCH))
    batch = pa.array([wire.frame(1, body) for body in bodies], pa.binary())
    column = PayloadColumn(shape_of(schema), lambda id: schema)
    best = 0.0
    for _ in range(_ROUNDS):
        began_s = time.process_time()
        for _ in range(records // _BATCH):
            column.typed(batch)
        best = max(best, records / (time.process_time() - began_s))
    assert column.misfits == 0, column.first_misfit
    return best


def main() -> None:
    """Print a line for each type."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000, help="of each type and round (default: 200000)")
    records = max(_BATCH, parser.parse_args().records)
    for schema in schemas():
        print(f"{schema.type:8}  {rate(schema, records):>9,.0f} records/s")


if __name__ == "__main__":
    main()
