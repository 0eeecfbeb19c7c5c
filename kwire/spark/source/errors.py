"""What the source refuses."""


class SourceError(Exception):
    """An option that is wrong, records that are gone, or a cluster that refuses. One line that says what to do."""


class DataLossError(SourceError):
    """Records that the query was to read are not there any more."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some data may have been lost, by retention or because a topic was deleted: set the option"
            " failOnDataLoss to false to go on with what is there"
        )
