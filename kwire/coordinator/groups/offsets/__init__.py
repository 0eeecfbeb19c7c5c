"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit and retention."""
