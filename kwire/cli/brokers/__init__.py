"""``kwire start --brokers``: several brokers on one host, which one process starts, watches and stops."""
