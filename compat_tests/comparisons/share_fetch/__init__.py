"""ShareFetch and ShareAcknowledge, request by request, on both brokers."""
