"""Authentication: principals, credentials, tokens, login mechanisms and TLS settings. Pure: bytes and values in, bytes
and values out. The clock and randomness are passed in; sockets, the metadata store and asyncio are not used here."""
