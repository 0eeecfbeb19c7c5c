"""Archives and backups, killed at any moment: short runs of `campaigns/archive`."""
