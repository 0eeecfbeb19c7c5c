"""Even load on the brokers of one host (`kwire.balance.enable`): preferred leaders, and partitions for new brokers."""
