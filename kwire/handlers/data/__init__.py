"""APIs on the records of partitions: Produce, Fetch, and those on offsets and leader epochs."""
