"""The sink: rows of a query become records of Kafka topics, each batch exactly once.

Tasks write no record to a target topic. They encode their rows as record batches and *stage* them in a topic of their
own (`staging`). The driver then copies what the winning attempts have staged to the targets in one transaction
(`transaction`), and the same transaction commits a *mark*: which query wrote which batch (`marks`). So a batch is there
wholly or not at all, whatever a rerun does: rows that fall to other tasks, other numbers of tasks, two attempts of a
task, or a driver that dies at any point. A batch whose mark is there is not written again.

The copy moves batches as they are, compressed; only producer id, epoch and sequence in their headers change.
"""
