"""All logs of a broker: loading, creating, deleting, moving, checkpoints, failed log directories."""
