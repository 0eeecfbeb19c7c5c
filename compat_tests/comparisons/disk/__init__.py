"""Full file systems, failed data directories and exhausted file descriptors."""
