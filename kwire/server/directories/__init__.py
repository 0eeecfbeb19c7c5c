"""Data directories of several brokers on one host: their layout, and the move of a single broker's into place."""
