"""The open log of one partition: appending, reading, truncation, retention, syncing."""
