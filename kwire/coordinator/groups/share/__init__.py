"""Share groups (KIP-932): their members, epochs and assignments, and which partitions are initialised."""
