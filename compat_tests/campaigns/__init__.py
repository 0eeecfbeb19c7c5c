"""Short runs of the long campaigns in `campaigns/` and `tools/`."""
