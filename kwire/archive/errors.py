"""Why nothing is archived or restored."""


class ArchiveError(Exception):
    """A table, a topic or a store that cannot be used. One line that says what is wrong and what to do."""


class Conflict(ArchiveError):
    """Somebody else has changed the table since it was opened. Nothing of this commit is in it."""
