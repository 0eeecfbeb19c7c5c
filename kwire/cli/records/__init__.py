"""Records on the command line: ``kwire produce`` and ``kwire consume``.

Both work on columns: a batch's keys in one list, its values in another. Decoding, filters, formats and encoding run
over a column at a time, so that a record costs no function call of Python's where its form allows.

What lives elsewhere: how a cluster is reached (`kwire.cli.connection`), batches' headers (`kwire.codec.records`).
"""
