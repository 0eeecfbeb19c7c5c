"""The formats of tables. Each keeps offsets with the records of one commit: `target` has what they have in common."""
