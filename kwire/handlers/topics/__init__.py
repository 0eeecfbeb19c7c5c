"""APIs on topics and the assignment of their partitions, and Metadata."""
