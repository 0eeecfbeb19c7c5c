"""Archives and their way back, killed at any moment."""
