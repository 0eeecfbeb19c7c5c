"""The metadata store: its interface, its keys, and its implementations (SQLite, ZooKeeper, memory)."""
