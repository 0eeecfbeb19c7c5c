"""Checking data found on disk: before it is served (`verifier`), and a whole data directory offline (`offline`)."""
