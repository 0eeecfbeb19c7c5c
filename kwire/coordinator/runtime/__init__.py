"""Running a coordinator shard on its log: machine interface, timers, loading, Java's hashing. Nothing about groups."""
