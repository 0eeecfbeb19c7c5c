"""``kwire console``: a web page for one or several clusters, of kwire or of Apache Kafka, in a process of its own.

The process is a client like any other command: it reaches clusters by `kwire.cli.connection` and describes them by the
functions of the commands, so that a broker knows nothing of it. Starlette serves the page (``static``, no build step)
and the HTTP API below ``/api``; docs/CONSOLE.md describes both.

    command    options and the process            access     who may ask: token, Host, Origin
    clusters   connections that are kept open     app        routes, headers, errors
    api        what one request answers           records    messages: pages of them, searches, tails
"""
