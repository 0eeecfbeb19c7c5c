"""Secrets planted in options, and looked for wherever Spark writes or shows something."""
