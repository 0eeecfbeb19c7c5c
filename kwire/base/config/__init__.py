"""Configuration: Kafka's properties, the sources of their values, and how kwire uses them.

The rest of the code uses `KafkaConfig`. `tables/` has the facts of Kafka's definitions, `support.py` lists the
properties that kwire supports, and `documentation.py` (imported only when needed) describes them.
"""

from kwire.base.config.errors import ConfigError
from kwire.base.config.kafka_config import KafkaConfig
from kwire.base.config.listeners import Endpoint

__all__ = ["ConfigError", "Endpoint", "KafkaConfig"]
