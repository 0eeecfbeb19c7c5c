"""SASL (RFC 4422): one module per mechanism, with both sides of its exchange, as state machines without I/O."""
