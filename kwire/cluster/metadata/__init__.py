"""The cluster's metadata as a broker has it in memory: the image of the store, and feature levels."""
