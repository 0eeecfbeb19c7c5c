"""Topics as DuckDB sees them: a dataset for each, which reads only what a query needs.

`spans` are the offsets of a query, `predicate` says which of them a filter can want, `brokers` and `directories` know
the topics and read them, `contents` gives keys and values their types, `dataset` is what DuckDB scans, `pipeline`
reads ahead of it.
"""
