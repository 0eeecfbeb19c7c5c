"""``kwire audit``: what the two ends of a pipeline have in common, and what they have not.

Each record becomes a row of digests (`spilling`, in processes beside each other), rows are divided by their digests
into files, and one part after the other is matched (`matching`, `order`): so the audit is exact and its memory bounded,
whatever the size of the topics. `ends` and `planning` say what is read, `fields` what is compared, `examples` reads
faulty records again to show them, `producers` follows the sequences of producers through a log, `rows` is what comes
out, and `text` and `page` (with `pictures`) show it.

What lives elsewhere: reading topics and data directories (`kwire.arrow`), connections (`kwire.cli.connection`).
"""
