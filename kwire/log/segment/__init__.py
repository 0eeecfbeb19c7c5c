"""One segment of a log: its `.log` file, its indexes, and scanning its batches."""
