"""APIs on producer ids and transactions, for producers, brokers and administrators."""
