"""The consumer group protocol of KIP-848."""
