"""Read segment files beside two busy brokers: each time what a consumer would have been given, or an error.

    .venv/bin/python -m campaigns.segment_files --count 200 --seed 1

Two brokers, with two replicas of each partition and tiny segments. Producers write records that only the leader
acknowledges, transactions that are committed, aborted or left open, and a topic that is compacted all the time. A
consumer follows everything. In each round the data directory of one broker is read, by the code that Spark's option
``path`` uses, in random order, while something happens to the brokers: retention, DeleteRecords, a crash, an orderly
stop, a log that lost its end, a leader that dies with records above the high watermark (and truncates them when it
comes back), a follower that does not fetch, a topic that is deleted and made again.

Each topic is read with a query of its own: planned once, then range by range. A query that ends well must have exactly
what the consumer was given of these offsets (of the compacted topic: all of it but for what a later record of the same
key replaces; with read_committed, what a read_committed consumer was given), in order; nothing that DeleteRecords
removed once the checkpoints say so; and no offset above a high watermark that is held back. Otherwise it must end with
a known error in one line. The first violation ends the run with exit status 1.
"""

from __future__ import annotations

import sys

from campaigns.seeds import main
from campaigns.segment_files.campaign import run_rounds

if __name__ == "__main__":
    sys.exit(main("segment_files", "segment files", __doc__, run_rounds, count=200))
