"""What each request of the REST interface means: functions of the state that return an answer, and for a change the
records that make it; pure.

| module | holds |
| --- | --- |
| `requests` | the body of a request for a schema, numbers of versions |
| `schemas` | stored texts as parsed schemas, with what they refer to |
| `reading` | subjects, versions, ids |
| `registering` | registering, look-up, checks of compatibility |
| `deleting` | soft and permanent deletion |
| `settings` | configurations and modes |
"""
