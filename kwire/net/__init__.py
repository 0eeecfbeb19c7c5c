"""Framing, connections, listeners and back-pressure. What requests mean lives in `kwire.handlers`."""
