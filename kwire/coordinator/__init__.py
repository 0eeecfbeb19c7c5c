"""Coordinators: state machines over replicated logs, and the services that handlers call.

A *shard* is the state machine of one partition of a coordinator's topic. It does no I/O, never waits and reads no
clock.

* `runtime`: runs a shard on its log. `runtime.machine` defines what a shard takes and returns.
* `groups`: the group coordinator. `groups.coordinator` is the service, `groups.shard` the state machine.
* `transactions`: the transaction coordinator, built in the same way.
* `assignors`: the server-side assignors of consumer groups (KIP-848).

Each package may import those named before it in the order runtime, assignors, groups, transactions.
"""
