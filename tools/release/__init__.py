"""The release recipe: its steps (`recipe`), the command (`__main__`), the names that do not move (`public_names`)."""
