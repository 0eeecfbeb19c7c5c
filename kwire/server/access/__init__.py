"""Access control of a broker: its authorizer, and the entries of a cluster that is not running."""
