"""The topology of a streams group (KIP-1071): which topics the application needs, and which tasks it has.

Members send the topology as it is in the application. With the topics of the cluster, `configure` derives from it how
many partitions each internal topic must have, which are missing, and how many tasks each subtopology has. Everything
is as in Apache Kafka 4.3.1, including which of several problems is named: the functions go through their maps in the
iteration order of Java's.
"""
