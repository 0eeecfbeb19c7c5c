"""The Kafka APIs: one module per API, named after it, which takes a request and its context and returns a response.

Sub-packages group the APIs by what they serve; the modules beside them are shared. Nothing here uses sockets.
"""
