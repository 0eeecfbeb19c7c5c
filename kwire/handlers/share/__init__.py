"""Share groups at the leader: ShareFetch and ShareAcknowledge, share sessions, and the share partitions (KIP-932)."""
