"""Configuration: Kafka's properties, where their values come from, and what kwire makes of them.

`KafkaConfig` is what the rest of the code uses. `tables/` has Kafka's own facts, `support.py` says which properties
kwire obeys, `documentation.py` (imported only on request) what they do.
"""

from kwire.base.config.errors import ConfigError
from kwire.base.config.kafka_config import KafkaConfig
from kwire.base.config.listeners import Endpoint

__all__ = ["ConfigError", "Endpoint", "KafkaConfig"]
