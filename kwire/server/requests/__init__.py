"""What the dispatcher knows of a request: its client, its route, its context, and when its turn comes."""
