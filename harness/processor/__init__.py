"""The processor: what code costs of it, and who gets it when."""
