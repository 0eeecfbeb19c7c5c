"""Configuration: describing, altering, and the meaning of values."""
