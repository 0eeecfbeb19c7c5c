"""Who a client is: principals, credentials, tokens and login mechanisms. Pure: bytes and values in, bytes and values
out; clock and randomness are passed in, and nothing here knows sockets, the metadata store or asyncio."""
