"""``kwire schema``: schemas of a registry, of kwire or any other with Confluent's REST interface.

`client` sends requests, `rows` is what is printed, `actions` is what the command does.
"""
