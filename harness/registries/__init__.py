"""Schema registries as processes: kwire's, and Apicurio Registry with Confluent's interface."""
