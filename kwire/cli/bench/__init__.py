"""``kwire bench``: how fast a topic is written and read, and how long a record takes from end to end."""
