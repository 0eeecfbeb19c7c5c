"""What the topic of the schemas says: names of subjects, records in Confluent's format, and the state they make; pure.

| module | holds |
| --- | --- |
| `names` | subjects and their contexts |
| `records` | keys and values of the topic |
| `versions` | one version of a subject |
| `state` | everything: versions, ids, configurations, modes; changed by records only |
"""
