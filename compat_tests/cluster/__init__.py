"""Clusters of three brokers, on kwire's own metadata store and on ZooKeeper."""
