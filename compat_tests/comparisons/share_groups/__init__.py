"""Share groups (KIP-932) as Kafka's own tools show and change them: the same output on both brokers."""
