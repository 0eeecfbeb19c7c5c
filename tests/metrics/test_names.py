"""`kwire.metrics.names`: what Prometheus asks of names, and those of the JMX exporter."""

from __future__ import annotations

import pytest

from kwire.metrics.mbeans import Sample
from kwire.metrics.names import JMX, NAMINGS, PROMETHEUS


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (
            Sample("kafka_log_logmanager_logdirectoryoffline", "gauge", "", {"logDirectory": "/Data"}, 1),
            Sample("kafka_log_logmanager_logdirectoryoffline", "gauge", "", {"log_directory": "/Data"}, 1),
        ),
        (
            Sample("kafka_consumergroup_lag_sum", "gauge", "", {"topic": "t"}, 7),
            Sample("kafka_consumergroup_lag_sum", "unknown", "", {"topic": "t"}, 7),
        ),
        (
            Sample("kafka_log_logcleanermanager_time_since_last_run_ms", "gauge", "", {}, 1500),
            Sample("kafka_log_logcleanermanager_time_since_last_run_seconds", "gauge", "", {}, 1.5),
        ),
        *(
            (sample, sample)
            for sample in (
                Sample("kafka_network_requestmetrics_totaltimems", "summary", "_count", {"request": "Fetch"}, 4),
                Sample("kafka_server_brokertopicmetrics_messagesin", "counter", "_total", {"topic": "t"}, 4),
                Sample("kafka_log_log_size", "gauge", "", {"topic": "t", "partition": "0"}, 4),
            )
        ),
    ],
)
def test_only_what_promtool_objects_to_has_another_name(given: Sample, named: Sample) -> None:
    assert NAMINGS[PROMETHEUS](given) == named
    assert NAMINGS[JMX](given) is given
