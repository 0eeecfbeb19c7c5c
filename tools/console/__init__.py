"""Programs about the console: what it does with large clusters, and its pictures for the documentation."""
