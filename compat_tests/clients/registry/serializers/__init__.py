"""Java's serializers with the registry, and Confluent's client for Java."""
