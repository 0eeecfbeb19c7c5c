"""The audit log: lines about what clients were allowed and denied, and about what they have changed."""
