"""One sentence for each property that kwire supports. Imported only when a client asks for documentation.

A topic property that has a broker property as its default shares the broker's sentence unless it has its own here.
"""

from __future__ import annotations

BROKER_DOCUMENTATION: dict[str, str] = {
    "advertised.listeners": "Addresses told to clients, one for each listener; by default the one they connected to.",
    "alter.log.dirs.replication.quota.window.num": (
        "Windows that the rate of moves between data directories is measured over, beside the present one."
    ),
    "alter.log.dirs.replication.quota.window.size.seconds": "Length of such a window, in seconds.",
    "auto.create.topics.enable": "Whether asking for the metadata of a missing topic may create it.",
    "broker.id": "Older name of node.id.",
    "broker.rack": "Where this broker stands, for placing replicas apart and for consumers that read nearby.",
    "broker.session.timeout.ms": "How long a silent broker keeps its place on the embedded metadata store.",
    "compression.gzip.level": "How hard gzip tries, where the broker itself compresses.",
    "compression.lz4.level": "How hard lz4 tries, where the broker itself compresses.",
    "compression.type": "Codec of stored batches: a codec's name, uncompressed, or producer for whatever was sent.",
    "compression.zstd.level": "How hard zstd tries, where the broker itself compresses.",
    "connections.max.idle.ms": "A connection on which nothing happens for this long is closed.",
    "controlled.shutdown.enable": "Whether a broker that stops lets others lead first.",
    "default.replication.factor": "Replicas of a topic whose creator leaves the number to the broker.",
    "delete.topic.enable": "Whether DeleteTopics is obeyed.",
    "fetch.max.bytes": "Upper bound of one fetch response, except that its first batch is always whole.",
    "follower.replication.throttled.rate": (
        "Bytes per second that throttled replicas fetch at most while they are not in sync."
    ),
    "group.coordinator.rebalance.protocols": "Which group protocols are offered.",
    "group.initial.rebalance.delay.ms": "How long an empty group waits for more members before its first rebalance.",
    "group.max.session.timeout.ms": "Longest session timeout a member may ask for.",
    "group.max.size": "Most members one group may have.",
    "group.min.session.timeout.ms": "Shortest session timeout a member may ask for.",
    "inter.broker.listener.name": "Listener that brokers use among themselves.",
    "kwire.metadata.dir": "Directory of the metadata store that several brokers on this host share.",
    "kwire.test.control": "Offers the control interface for tests, which can break things on purpose.",
    "kwire.test.supported.features": "Makes an older or newer broker of this one for tests, as name=lowest-highest.",
    "kwire.validate.records": "Checks every record of a produced batch, as Kafka does, not only the batch as a whole.",
    "kwire.zookeeper.sasl.jaas.config": "How to log in to ZooKeeper, as one line of JAAS: DIGEST-MD5 or Kerberos.",
    "leader.replication.throttled.rate": (
        "Bytes per second that throttled replicas which are not in sync are sent at most."
    ),
    "listener.security.protocol.map": "The security protocol of each listener name.",
    "listeners": "Addresses to open, as NAME://host:port; no host is every address, localhost 127.0.0.1 and ::1.",
    "log.cleaner.backoff.ms": "How long the log cleaner sleeps when no log is due.",
    "log.cleaner.dedupe.buffer.size": "Memory for the offset maps of all log cleaner threads together, in bytes.",
    "log.cleaner.delete.retention.ms": "How long a compacted topic keeps a tombstone after it could be dropped.",
    "log.cleaner.enable": "Whether the log cleaner runs; without it, compacted topics only grow.",
    "log.cleaner.io.buffer.load.factor": "How full the cleaner's offset map may get; the rest waits for another round.",
    "log.cleaner.io.buffer.size": "Bytes that the log cleaner's threads together read and write at a time.",
    "log.cleaner.io.max.bytes.per.second": "Bound on what the log cleaner reads and writes.",
    "log.cleaner.max.compaction.lag.ms": "Longest time a record may wait for compaction.",
    "log.cleaner.min.cleanable.ratio": "Part of a log that must be dirty before it is compacted.",
    "log.cleaner.min.compaction.lag.ms": "Shortest time a record stays before it may be compacted away.",
    "log.cleaner.threads": "How many logs are cleaned at a time.",
    "log.cleanup.policy": "What happens to old data: delete by age and size, compact by key, both, or nothing.",
    "log.dir": "Data directory, where log.dirs is not set.",
    "log.dirs": "Data directories, separated by commas.",
    "log.flush.interval.messages": "Records after which a partition is forced to disk.",
    "log.flush.interval.ms": "Time after which a partition's new data is forced to disk.",
    "log.flush.offset.checkpoint.interval.ms": "How often the point from which recovery must look is written down.",
    "log.flush.scheduler.interval.ms": "How often the broker looks for data that is due to be forced to disk.",
    "log.flush.start.offset.checkpoint.interval.ms": "How often the log start offsets are written down.",
    "log.index.interval.bytes": "Bytes between two entries of an offset index.",
    "log.index.size.max.bytes": "Size at which a segment's index is full, and the segment is rolled.",
    "log.message.timestamp.after.max.ms": "How far in the future a record's timestamp may be.",
    "log.message.timestamp.before.max.ms": "How far in the past a record's timestamp may be.",
    "log.message.timestamp.type": "Whether a record's time is its creator's or that of its append.",
    "log.retention.bytes": "Size of a partition above which its oldest segments go; -1 for no limit.",
    "log.retention.check.interval.ms": "How often the broker looks for segments that are due to go.",
    "log.retention.hours": "Age in hours at which a segment goes, where neither minutes nor milliseconds are given.",
    "log.retention.minutes": "Age in minutes at which a segment goes, where milliseconds are not given.",
    "log.retention.ms": "Age in milliseconds at which a segment goes; -1 for never.",
    "log.roll.hours": "Age in hours at which a segment is closed and a new one begun, where log.roll.ms is not given.",
    "log.roll.jitter.hours": "Like log.roll.jitter.ms, which comes first, but in hours.",
    "log.roll.jitter.ms": "Most milliseconds by which rolling is brought forward at random.",
    "log.roll.ms": "Age in milliseconds at which a segment is closed and a new one begun.",
    "log.segment.bytes": "Size at which a segment is closed and a new one begun.",
    "log.segment.delete.delay.ms": "How long the file of a removed segment stays on disk.",
    "max.connections": "Most connections at one time.",
    "max.connections.per.ip": "Most connections at one time from one address.",
    "max.connections.per.ip.overrides": "Limits of their own for some hosts or addresses, as host:limit.",
    "max.incremental.fetch.session.cache.slots": "Most incremental fetch sessions kept at one time.",
    "max.request.partition.size.limit": "Most partitions one DescribeTopicPartitions response tells.",
    "message.max.bytes": "Largest batch that is taken, as it is sent (compressed).",
    "min.insync.replicas": "Replicas that must be in sync before a write with acks=all is taken.",
    "node.id": "The number of this broker in its cluster.",
    "num.partitions": "Partitions of a topic whose creator leaves the number to the broker.",
    "offset.metadata.max.bytes": "Largest text that may be stored with a committed offset.",
    "offsets.commit.timeout.ms": "Longest time an offset commit waits for its replicas.",
    "offsets.retention.check.interval.ms": "How often the broker looks for committed offsets that have expired.",
    "offsets.retention.minutes": "How long committed offsets outlive their group's last member.",
    "offsets.topic.compression.codec": "Codec number of batches in the offsets topic.",
    "offsets.topic.num.partitions": "Partitions of the offsets topic.",
    "offsets.topic.replication.factor": "Replicas of the offsets topic.",
    "offsets.topic.segment.bytes": "Segment size of the offsets topic.",
    "process.roles": "Must have broker; a controller role is taken and means nothing more.",
    "producer.id.expiration.check.interval.ms": "How often the broker looks for idle producers to forget.",
    "producer.id.expiration.ms": "How long the sequence state of an idle producer is kept.",
    "queued.max.request.bytes": "Most bytes of requests in memory before reading stops; -1 for no limit.",
    "queued.max.requests": "Most requests waiting before reading stops.",
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "Bytes per second that logs are copied with between data directories."
    ),
    "replica.fetch.backoff.ms": "How long a follower leaves a partition alone that could not be fetched.",
    "replica.fetch.max.bytes": "How much of one partition a follower fetches at a time.",
    "replica.fetch.min.bytes": "Bytes that a follower's fetch waits for.",
    "replica.fetch.response.max.bytes": "How much a follower fetches at a time.",
    "replica.fetch.wait.max.ms": "How long a follower's fetch waits for new data.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are written down.",
    "replica.lag.time.max.ms": "How long a replica may be behind its leader and count as in sync.",
    "replica.selector.class": (
        "Who reads from which replica: leaders alone, or RackAwareReplicaSelector, the replica nearby."
    ),
    "replica.socket.timeout.ms": "How long a follower waits for its leader's answer.",
    "replication.quota.window.num": (
        "Windows that the rate of throttled replication is measured over, beside the present one."
    ),
    "replication.quota.window.size.seconds": "Length of such a window, in seconds.",
    "request.timeout.ms": "How long a request that only the controller can decide on is tried.",
    "socket.listen.backlog.size": "Connections that may wait to be accepted.",
    "socket.receive.buffer.bytes": "Receive buffer of a socket; -1 leaves it to the system.",
    "socket.request.max.bytes": "Largest request that is read; a larger one ends the connection.",
    "socket.send.buffer.bytes": "Send buffer of a socket; -1 leaves it to the system.",
    "zookeeper.connect": "ZooKeeper's servers as host:port, with commas, and a path under which the cluster lives.",
    "zookeeper.connection.timeout.ms": "How long a start waits for ZooKeeper; by default the session timeout.",
    "zookeeper.session.timeout.ms": "How long ZooKeeper waits for a silent broker before others lead in its place.",
    "zookeeper.set.acl": "Whether only this login may change what is made in ZooKeeper; everybody may read it.",
    "zookeeper.ssl.client.enable": "Whether ZooKeeper is reached over TLS.",
    "zookeeper.ssl.endpoint.identification.algorithm": "HTTPS: the server's certificate must be for its host name.",
    "zookeeper.ssl.keystore.location": "PEM file with the broker's certificate and key for ZooKeeper.",
    "zookeeper.ssl.keystore.password": "Password of the key for ZooKeeper.",
    "zookeeper.ssl.truststore.location": "PEM file with the certificates that ZooKeeper's is trusted by.",
}

TOPIC_DOCUMENTATION: dict[str, str] = {
    "cleanup.policy": "What happens to old data: delete by age and size, compact by key, both, or nothing.",
    "file.delete.delay.ms": "How long the file of a removed segment stays on disk.",
    "flush.messages": "Records after which the partition is forced to disk.",
    "flush.ms": "Time after which new data is forced to disk.",
    "follower.replication.throttled.replicas": "Replicas whose fetching is throttled, as partition:broker, or *.",
    "leader.replication.throttled.replicas": "Replicas that are throttled at their leader, as partition:broker, or *.",
    "local.retention.bytes": "With tiered storage, how much stays on local disk.",
    "local.retention.ms": "With tiered storage, how long data stays on local disk.",
    "max.message.bytes": "Largest batch that is taken, as it is sent (compressed).",
    "preallocate": "Whether segment files are made at full size.",
    "remote.log.copy.disable": "With tiered storage, stops copying to it.",
    "remote.log.delete.on.disable": "With tiered storage, deletes what it has when it is turned off.",
    "remote.storage.enable": "Tiered storage of this topic, which kwire does not have.",
    "retention.bytes": "Size of a partition above which its oldest segments go; -1 for no limit.",
    "retention.ms": "Age at which a segment goes; -1 for never.",
    "segment.bytes": "Size at which a segment is closed and a new one begun.",
    "segment.index.bytes": "Size at which a segment's index is full, and the segment is rolled.",
    "segment.jitter.ms": "Most milliseconds by which rolling is brought forward at random.",
    "segment.ms": "Age at which a segment is closed and a new one begun.",
    "unclean.leader.election.enable": "Whether a replica that is behind may lead, at the price of lost records.",
}

RESOURCE_DOCUMENTATION: dict[str, str] = {
    "consumer.heartbeat.interval.ms": "How often members of this consumer group should call in.",
    "consumer.session.timeout.ms": "Silence after which a member of this consumer group is taken for gone.",
    "interval.ms": "How often clients of this subscription push their metrics.",
    "match": "Which clients this subscription is for, as name=pattern.",
    "metrics": "Prefixes of the metrics that clients of this subscription push.",
}


def topic_documentation(name: str) -> str | None:
    """The sentence for a topic property."""
    from kwire.base.config.tables.topics import SYNONYMS

    if name in TOPIC_DOCUMENTATION:
        return TOPIC_DOCUMENTATION[name]
    synonyms = SYNONYMS.get(name, ())
    return BROKER_DOCUMENTATION.get(synonyms[0][0]) if synonyms else None
