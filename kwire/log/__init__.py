"""The logs of a broker: one partition's log on disk, and the manager of all.

Sub-packages, each importing only those before it: `common`, `segment`, `state`, then `recovery` and `verification`,
`partition`, `compaction`, `manager`. Nothing here depends on replication or the network.
"""
