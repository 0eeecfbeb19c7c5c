"""The group coordinator: groups of both protocols, and the committed offsets of ``__consumer_offsets``."""
