"""``kwire completion``: completion of commands in shells."""
