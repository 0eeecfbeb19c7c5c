"""What the sink refuses."""


class SinkError(Exception):
    """An option, a row or a batch that cannot be written. One line that says what to do."""
