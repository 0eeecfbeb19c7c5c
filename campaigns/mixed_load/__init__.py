"""The campaign of mixed load: hours of everything at once on one broker."""
