"""Share groups under faults: members that speak the raw protocol, what they have seen, and what must hold of it.

Modules: `history` (what happened), `member` (a share consumer), `group` (the group around its members), `promises` (the
checker), `inside` (what only a simulation can look at). Members and checker run against real brokers, too
(`campaigns.chaos`).
"""
