"""Why a query cannot be answered."""


class SqlError(Exception):
    """A wrong query, an unknown topic, a result that cannot be written. One line that says what to do."""


class UsageError(SqlError):
    """Options that do not fit each other."""
