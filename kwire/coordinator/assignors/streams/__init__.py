"""The task assignor of streams groups (KIP-1071): pure functions that compute a target assignment.

Given the same members in the same order, it returns the same assignment as Apache Kafka's.
"""
