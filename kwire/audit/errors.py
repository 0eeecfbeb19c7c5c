"""Why two ends cannot be compared."""


class AuditError(Exception):
    """Ends that cannot be read or that do not fit each other. One line that says what to do."""
