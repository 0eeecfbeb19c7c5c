"""The state beside a log's records: leader epochs, producers and their transactions."""
