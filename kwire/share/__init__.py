"""Share partitions (KIP-932): the records of one partition in flight to the members of one share group. Pure."""
