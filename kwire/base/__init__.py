"""What every other package may import: doors, configuration, errors, logging, metrics, quotas, small value types."""
