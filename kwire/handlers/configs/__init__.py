"""APIs that describe and alter configuration."""
