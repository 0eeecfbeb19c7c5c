"""Credentials, tokens and logins: what Apache Kafka answers, kwire answers."""
