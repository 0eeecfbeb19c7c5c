"""Groups on brokers in the test's own process."""
