"""APIs about the cluster and its brokers: versions, features, the quorum, log directories."""
