"""The APIs between brokers about the state of share groups (KIP-932)."""
