"""The metadata store for brokers on several hosts: ZooKeeper, through kazoo."""
