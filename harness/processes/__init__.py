"""Brokers, clusters, ZooKeeper and Docker as processes that a test starts, stops and kills."""
