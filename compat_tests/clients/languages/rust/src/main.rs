//! rdkafka on a broker, asserting what it sees: client BOOTSTRAP PREFIX
//!
//! Every scenario prints one line "ok NAME"; the first thing that is not as it should be ends the program.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
const PER_CODEC: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(20);

struct Client {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
}

impl Client {
    fn config(&self, settings: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        for (name, value) in settings {
            config.set(*name, *value);
        }
        config
    }

    fn create(&self, topic: &str, partitions: i32) {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1)).set("retention.ms", "3600000");
        let made = block_on(self.admin.create_topics(&[new], &options())).unwrap();
        assert_eq!(made, [Ok(topic.to_string())]);
    }

    fn consumer(&self, group: &str, topic: &str, isolation: &str) -> BaseConsumer {
        let consumer: BaseConsumer = self
            .config(&[
                ("group.id", group),
                ("auto.offset.reset", "earliest"),
                ("enable.auto.commit", "false"),
                ("isolation.level", isolation),
            ])
            .create()
            .unwrap();
        consumer.subscribe(&[topic]).unwrap();
        consumer
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(TIMEOUT))
}

/// The next messages as (key, value, first header's value).
fn read(consumer: &BaseConsumer, wanted: usize) -> Vec<(String, String, String)> {
    let end = Instant::now() + TIMEOUT;
    let mut seen = Vec::new();
    while seen.len() < wanted {
        assert!(Instant::now() < end, "{} of {wanted} messages", seen.len());
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            let message = message.unwrap();
            let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
            let header = message.headers().map_or(String::new(), |headers| text(headers.get(0).value));
            seen.push((text(message.key()), text(message.payload()), header));
        }
    }
    seen
}

fn topics(client: &Client, topic: &str) {
    client.create(topic, 2);
    let told = client.admin.inner().fetch_metadata(Some(topic), TIMEOUT).unwrap();
    assert_eq!(told.topics()[0].partitions().len(), 2);
    let described = block_on(client.admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options())).unwrap();
    let config = described[0].as_ref().unwrap();
    assert_eq!(config.get("retention.ms").unwrap().value.as_deref(), Some("3600000"));
}

fn compressions(client: &Client, topic: &str) {
    for codec in CODECS {
        let producer: BaseProducer =
            client.config(&[("compression.type", codec), ("enable.idempotence", "true")]).create().unwrap();
        for number in 0..PER_CODEC {
            let value = format!("{codec}-{number}");
            let headers = OwnedHeaders::new().insert(Header { key: "codec", value: Some(codec) });
            producer.send(BaseRecord::to(topic).key(codec).payload(&value).headers(headers)).unwrap();
        }
        producer.flush(TIMEOUT).unwrap();
    }
}

/// What one member reads and commits is where a later one goes on.
fn groups(client: &Client, topic: &str) {
    let group = format!("{topic}-group");
    let first = client.consumer(&group, topic, "read_committed");
    let mut next = HashMap::new();
    for (key, value, header) in read(&first, PER_CODEC * CODECS.len()) {
        let number = next.entry(key.clone()).or_insert(0);
        assert_eq!((value, header), (format!("{key}-{number}"), key));
        *number += 1;
    }
    first.commit_consumer_state(CommitMode::Sync).unwrap();
    let committed: i64 = first
        .committed(TIMEOUT)
        .unwrap()
        .elements()
        .iter()
        .map(|each| each.offset().to_raw().unwrap())
        .sum();
    assert_eq!(committed, (PER_CODEC * CODECS.len()) as i64);
    drop(first);
    let producer: BaseProducer = client.config(&[]).create().unwrap();
    producer.send(BaseRecord::<str, str>::to(topic).payload("afterwards")).unwrap();
    producer.flush(TIMEOUT).unwrap();
    let second = client.consumer(&group, topic, "read_committed");
    assert_eq!(read(&second, 1)[0].1, "afterwards");
}

/// Poll until the consumer has joined its group: before, its generation may change at any time.
fn join(consumer: &BaseConsumer) {
    let end = Instant::now() + TIMEOUT;
    while consumer.assignment().unwrap().count() == 0 {
        assert!(Instant::now() < end, "no partition was assigned");
        assert!(consumer.poll(Duration::from_millis(100)).is_none());
    }
}

fn transactions(client: &Client, topic: &str) {
    client.create(topic, 1);
    let producer: BaseProducer = client.config(&[("transactional.id", topic)]).create().unwrap();
    producer.init_transactions(TIMEOUT).unwrap();
    let reader = client.consumer(&format!("{topic}-group"), topic, "read_committed");
    join(&reader);
    for round in 0..3 {
        producer.begin_transaction().unwrap();
        producer.send(BaseRecord::<str, str>::to(topic).payload(&format!("{round}"))).unwrap();
        producer.flush(TIMEOUT).unwrap();
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, 0, Offset::Offset(10 + round)).unwrap();
        producer.send_offsets_to_transaction(&offsets, &reader.group_metadata().unwrap(), TIMEOUT).unwrap();
        if round == 1 {
            producer.abort_transaction(TIMEOUT).unwrap();
        } else {
            producer.commit_transaction(TIMEOUT).unwrap();
        }
    }
    let mut asked = TopicPartitionList::new();
    asked.add_partition(topic, 0);
    let committed = reader.committed_offsets(asked, TIMEOUT).unwrap();
    assert_eq!(committed.elements()[0].offset(), Offset::Offset(12));
    let all = client.consumer(&format!("{topic}-all"), topic, "read_committed");
    let values: Vec<String> = read(&all, 2).into_iter().map(|each| each.1).collect();
    assert_eq!(values, ["0", "2"]);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let bootstrap = arguments[1].clone();
    let admin = ClientConfig::new().set("bootstrap.servers", &bootstrap).create().unwrap();
    let client = Client { bootstrap, admin };
    let topic = format!("{}-rdkafka", arguments[2]);
    topics(&client, &topic);
    println!("ok topics");
    compressions(&client, &topic);
    println!("ok compressions");
    groups(&client, &topic);
    println!("ok groups");
    transactions(&client, &format!("{topic}-txn"));
    println!("ok transactions");
    let gone = block_on(client.admin.delete_topics(&[&topic], &options())).unwrap();
    assert_eq!(gone, [Ok(topic)]);
    println!("ok deleting");
}
