"""Segment files read beside busy brokers: each time what a consumer would have been given, or an error.

`campaign` runs the rounds; `disturbances` is what happens meanwhile, `writers` fill the topics, `witness` is the
consumer that knows what brokers serve, `verdict` compares, and `mutants` breaks the reader on purpose.
"""
