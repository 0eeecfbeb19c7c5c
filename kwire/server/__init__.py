"""The broker as a whole: its parts, their start in order and stop in reverse, and the dispatch of requests."""
