"""Opening a partition's directory: repairing what an unclean shutdown left, in the broker or in helper processes."""
