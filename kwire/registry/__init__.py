"""The process of ``kwire registry``: Confluent's REST interface for schemas, which are stored in a topic of any Kafka
cluster.

| part | holds |
| --- | --- |
| `store` | the topic's records and the state that they make; pure |
| `operations` | what requests mean; pure |
| `topic` | the topic: created, read for ever, written by the leader behind a fence |
| `election` | who leads: a group of the cluster, with the protocol of Confluent's registries |
| `instance` | one instance: reads from its own state, writes if it leads |
| `forwarding` | writes to the leader, if another instance is it |
| `app` | routes, content types, errors |
| `access` | who may ask: basic authentication |
| `server`, `command` | the process |

Every instance has all schemas in memory and answers reads itself. A write is answered once the topic's in-sync replicas
have it and this instance has read it back.
"""
