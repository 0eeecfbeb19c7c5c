"""The example project of `examples/`, run as a user of kwire runs it."""
