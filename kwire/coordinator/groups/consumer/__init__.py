"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat, and migration from and to classic groups."""
