"""Coordinators: pure state machines over replicated logs, and the service that binds them to those logs.

`machine` says what every machine speaks (instants, records, results); `timers` is its alarm clock. A group's life is
in `classic_group` (state), `classic_rebalance`, `classic_join` and `classic_protocol` (transitions), committed offsets
in `offset_store` and `offset_protocol`; `group_shard` holds all groups of one ``__consumer_offsets`` partition and
applies its records. `shard_runtime` runs a shard on its log, `group_coordinator` is what handlers call.
"""
