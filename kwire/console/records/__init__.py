"""Messages of a topic for the page: some of them, all that a search finds, and those that come."""
