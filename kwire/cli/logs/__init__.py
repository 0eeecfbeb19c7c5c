"""``kwire log``: files of a data directory, which no broker needs to run for."""
