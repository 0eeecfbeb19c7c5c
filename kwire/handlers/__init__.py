"""One module per API, named after it: a request and its context in, a response out. No sockets here."""
