"""``kwire profile``: settings of connections by name, in ``~/.config/kwire/config.toml``."""
