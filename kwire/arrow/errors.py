"""Why records cannot be read."""


class ReadError(Exception):
    """Files that are damaged or in use, or a cluster that refuses. One line that says what to do."""


class RecordsGone(ReadError):
    """Records that were to be read are not there any more: retention, or a topic that was deleted."""
