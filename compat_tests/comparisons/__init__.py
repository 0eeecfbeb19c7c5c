"""Raw requests and Kafka's own classes: both brokers must behave alike, byte for byte where bytes matter."""
