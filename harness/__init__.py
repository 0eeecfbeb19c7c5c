"""What tests, compatibility tests, campaigns and tools share: brokers as processes, Java, raw clients, the
simulation."""
