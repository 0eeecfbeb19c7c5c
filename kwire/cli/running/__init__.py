"""What commands do in a running cluster, through the Kafka protocol: with kwire's brokers and Apache Kafka's alike.

What lives elsewhere: the commands themselves, and what they do in a metadata store that no broker uses
(`kwire.server.offline`).
"""
