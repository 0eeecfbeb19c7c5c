"""The log cleaner: `cleanup.policy=compact`."""
