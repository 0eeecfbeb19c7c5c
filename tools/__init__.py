"""Tools for developers: generators of messages and configuration facts, benchmarks, the compatibility table."""
