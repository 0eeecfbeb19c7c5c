package org.apache.spark.sql.kafka010;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConsumerGroupsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.spark.kafka010.KafkaTokenUtil;
import scala.Function1;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * What Spark's Kafka suites need of a broker, asked from one that is running (system property kwire.bootstrap) through
 * Kafka's clients. It has the name and the public members of the class in Spark's test jar, which starts a broker of
 * its own; it stands before it on the class path.
 *
 * <p>Settings that a suite gives its broker become settings of the topics it makes. Where the suite leaves the broker's
 * retention interval alone, nothing may be deleted behind its back: retention then applies only in cleanupLogs. Topics
 * that a suite writes to without having made them are made here, as its broker would; the one that runs makes none.
 */
public class KafkaTestUtils {
  private static final long DEADLINE_MS = 60_000;
  private static final String RETENTION_INTERVAL = "log.retention.check.interval.ms";
  // Of the broker's names, those that are a topic's; segments this small are asked for by Kafka's name for tests.
  private static final java.util.Map<String, String> TOPIC_NAMES = java.util.Map.of(
      "log.segment.bytes", "internal.segment.bytes",
      "log.retention.bytes", "retention.bytes",
      "log.retention.ms", "retention.ms",
      "delete.retention.ms", "delete.retention.ms");

  private final Map<String, Object> brokerProperties;
  private final boolean secure;
  private final Set<String> created = new HashSet<>();
  private Admin admin;

  public KafkaTestUtils(Map<String, Object> withBrokerProps, boolean secure) {
    this.brokerProperties = withBrokerProps;
    this.secure = secure;
  }

  public static Map<String, Object> $lessinit$greater$default$1() {
    return KafkaTestUtils$.MODULE$.$lessinit$greater$default$1();
  }

  public static boolean $lessinit$greater$default$2() {
    return KafkaTestUtils$.MODULE$.$lessinit$greater$default$2();
  }

  /** HOST:PORT of the broker. Fails before setup and after teardown, as the original does. */
  public String brokerAddress() {
    if (admin == null) {
      throw new AssertionError("not set up, or torn down already");
    }
    return address();
  }

  /** There is no ZooKeeper. */
  public String zkAddress() {
    throw new UnsupportedOperationException("no ZooKeeper");
  }

  /** Who the suite's clients are to Kerberos. Fails without a realm. */
  public String clientPrincipal() {
    return required("kwire.principal");
  }

  /** The file with the principal's keys. Fails without a realm. */
  public String clientKeytab() {
    return required("kwire.keytab");
  }

  /** Connect to the broker. */
  public void setup() {
    if (admin == null) {
      Properties properties = new Properties();
      properties.put("bootstrap.servers", address());
      addLogin(properties);
      admin = Admin.create(properties);
      get(() -> admin.describeCluster().nodes().get());
    }
  }

  /** Delete the topics that were made, and disconnect. */
  public void teardown() {
    if (admin == null) {
      return;
    }
    for (String topic : new ArrayList<>(created)) {
      if (topics().contains(topic)) {
        deleteTopic(topic);
      }
    }
    admin.close();
    admin = null;
    if (secure) {
      UserGroupInformation.reset();
    }
  }

  /**
   * Create a topic and wait until every partition has a leader. With overwrite, one of this name is deleted before;
   * without, it is used as it is: tests of a suite share topics that each of them makes.
   */
  public void createTopic(String topic, int partitions, boolean overwrite) {
    NewTopic wanted = new NewTopic(topic, partitions, (short) 1).configs(retentionAtOnce() ? topicSettings() : null);
    await("topic " + topic + " created", () -> {
      try {
        admin.createTopics(Collections.singleton(wanted)).all().get();
        return true;
      } catch (ExecutionException error) {
        if (!(error.getCause() instanceof TopicExistsException)) {
          throw error;
        }
        if (overwrite) {
          deleteTopic(topic);
        }
        return !overwrite;
      }
    });
    created.add(topic);
    awaitLeaders(topic, partitions);
  }

  public void createTopic(String topic) {
    createTopic(topic, 1, false);
  }

  public boolean createTopic$default$3() {
    return false;
  }

  /** Delete a topic and wait until the broker does not list it any more. */
  public void deleteTopic(String topic) {
    get(() -> admin.deleteTopics(Collections.singleton(topic)).all().get());
    created.remove(topic);
    await("topic " + topic + " deleted", () -> !topics().contains(topic));
  }

  /** Make it so many partitions in all. */
  public void addPartitions(String topic, int partitions) {
    get(() -> admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(partitions))).all().get());
    awaitLeaders(topic, partitions);
  }

  /** Names and partition counts of all topics. */
  public Seq<Tuple2<String, Object>> getAllTopicsAndPartitionSize() {
    List<Tuple2<String, Object>> sizes = new ArrayList<>();
    for (TopicDescription each : describe(topics())) {
      sizes.add(new Tuple2<>(each.name(), each.partitions().size()));
    }
    return CollectionConverters.asScala(sizes).toList();
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessages(String topic, String[] messages) {
    return sendMessages(topic, messages, Option.empty());
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessages(String topic, String[] messages, Option<Object> partition) {
    List<ProducerRecord<String, String>> records = new ArrayList<>();
    for (String message : messages) {
      Integer chosen = partition.isEmpty() ? null : (Integer) partition.get();
      records.add(new ProducerRecord<>(topic, chosen, null, message));
    }
    return send(records);
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessage(ProducerRecord<String, String> message) {
    return send(Collections.singletonList(message));
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessages(Seq<ProducerRecord<String, String>> messages) {
    return send(CollectionConverters.asJava(messages));
  }

  public Seq<Tuple2<String, RecordMetadata>> sendMessages(ProducerRecord<String, String>[] messages) {
    return send(List.of(messages));
  }

  /** Retention, once: the topics lose what the broker's settings do not let them keep, and nothing after that. */
  public void cleanupLogs() {
    alterTopics(AlterConfigOp.OpType.SET);
    await("retention", () -> created.stream().allMatch(topic ->
        offsets(Set.of(topic), OffsetSpec.earliest()).equals(offsets(Set.of(topic), OffsetSpec.latest()))));
    alterTopics(AlterConfigOp.OpType.DELETE);
  }

  public Map<TopicPartition, Object> getEarliestOffsets(scala.collection.immutable.Set<String> topics) {
    return scalaMap(offsets(CollectionConverters.asJava(topics), OffsetSpec.earliest()));
  }

  public Map<TopicPartition, Object> getLatestOffsets(scala.collection.immutable.Set<String> topics) {
    return scalaMap(offsets(CollectionConverters.asJava(topics), OffsetSpec.latest()));
  }

  public ListConsumerGroupsResult listConsumerGroups() {
    return admin.listConsumerGroups();
  }

  /** The settings a suite wants its broker to have; suites override it to add theirs. */
  public Properties brokerConfiguration() {
    Properties properties = new Properties();
    CollectionConverters.asJava(brokerProperties).forEach((name, value) -> properties.put(name, value.toString()));
    return properties;
  }

  public void withTransactionalProducer(Function1<KafkaProducer<String, String>, BoxedUnit> use) {
    Properties properties = producerProperties();
    properties.put("transactional.id", UUID.randomUUID().toString());
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
      producer.initTransactions();
      use.apply(producer);
    }
  }

  /** Wait until the end of a partition is at least at an offset. */
  public void waitUntilOffsetAppears(TopicPartition partition, long offset) {
    await(partition + " at " + offset, () ->
        offsets(Set.of(partition.topic()), OffsetSpec.latest()).getOrDefault(partition, -1L) >= offset);
  }

  private static String address() {
    return required("kwire.bootstrap");
  }

  private static String required(String property) {
    String value = System.getProperty(property);
    if (value == null) {
      throw new IllegalStateException("system property " + property + " is not set");
    }
    return value;
  }

  /** The login by Kerberos, in the form that Spark gives it, if the suite wants a secure broker. */
  private void addLogin(Properties properties) {
    if (secure) {
      properties.put("security.protocol", "SASL_PLAINTEXT");
      properties.put("sasl.jaas.config",
          KafkaTokenUtil.getKeytabJaasParams(clientKeytab(), clientPrincipal(), "kafka"));
    }
  }

  private boolean retentionAtOnce() {
    return brokerConfiguration().containsKey(RETENTION_INTERVAL);
  }

  private java.util.Map<String, String> topicSettings() {
    java.util.Map<String, String> settings = new TreeMap<>();
    brokerConfiguration().forEach((name, value) -> {
      if (TOPIC_NAMES.containsKey(name)) {
        settings.put(TOPIC_NAMES.get(name), value.toString());
      }
    });
    return settings;
  }

  private void alterTopics(AlterConfigOp.OpType type) {
    Collection<AlterConfigOp> changes = new ArrayList<>();
    topicSettings().forEach((name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, value), type)));
    java.util.Map<ConfigResource, Collection<AlterConfigOp>> all = new HashMap<>();
    created.forEach(topic -> all.put(new ConfigResource(ConfigResource.Type.TOPIC, topic), changes));
    get(() -> admin.incrementalAlterConfigs(all).all().get());
  }

  private Properties producerProperties() {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", brokerAddress());
    properties.put("key.serializer", StringSerializer.class.getName());
    properties.put("value.serializer", StringSerializer.class.getName());
    properties.put("acks", "all");
    // Suites count on records without a key being spread; they are written with clients that still have this class.
    properties.put("partitioner.class", "org.apache.kafka.clients.producer.internals.DefaultPartitioner");
    addLogin(properties);
    return properties;
  }

  private Seq<Tuple2<String, RecordMetadata>> send(Collection<ProducerRecord<String, String>> records) {
    List<Tuple2<String, RecordMetadata>> sent = new ArrayList<>();
    makeMissing(records.stream().map(ProducerRecord::topic).collect(Collectors.toSet()));
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(producerProperties())) {
      for (ProducerRecord<String, String> each : records) {
        sent.add(new Tuple2<>(each.value(), get(() -> producer.send(each).get(10, TimeUnit.SECONDS))));
      }
    }
    return CollectionConverters.asScala(sent).toList();
  }

  private void makeMissing(Set<String> wanted) {
    if (brokerConfiguration().getProperty("auto.create.topics.enable", "true").equals("true")) {
      Set<String> there = topics();
      wanted.stream().filter(topic -> !there.contains(topic)).forEach(this::createTopic);
    }
  }

  private Set<String> topics() {
    return get(() -> admin.listTopics().names().get());
  }

  private Collection<TopicDescription> describe(Collection<String> topics) {
    return get(() -> admin.describeTopics(topics).allTopicNames().get().values());
  }

  private void awaitLeaders(String topic, int partitions) {
    await("leaders of " + topic, () -> {
      try {
        Set<TopicPartition> wanted = new HashSet<>();
        for (int index = 0; index < partitions; index++) {
          wanted.add(new TopicPartition(topic, index));
        }
        return offsets(Set.of(topic), OffsetSpec.latest()).keySet().equals(wanted);
      } catch (IllegalStateException error) {
        if (error.getCause() instanceof UnknownTopicOrPartitionException) {
          return false;
        }
        throw error;
      }
    });
  }

  private java.util.Map<TopicPartition, Long> offsets(Collection<String> topics, OffsetSpec which) {
    java.util.Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
    for (TopicDescription each : describe(topics)) {
      for (TopicPartitionInfo partition : each.partitions()) {
        wanted.put(new TopicPartition(each.name(), partition.partition()), which);
      }
    }
    java.util.Map<TopicPartition, Long> found = new HashMap<>();
    get(() -> admin.listOffsets(wanted).all().get()).forEach((key, value) -> found.put(key, value.offset()));
    return found;
  }

  private static Map<TopicPartition, Object> scalaMap(java.util.Map<TopicPartition, Long> offsets) {
    java.util.Map<TopicPartition, Object> values = new HashMap<>(offsets);
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(values));
  }

  private static void await(String what, Callable<Boolean> condition) {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(DEADLINE_MS);
    while (!get(condition)) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException(what + ": not within " + DEADLINE_MS + " ms");
      }
      get(() -> {
        Thread.sleep(20);
        return true;
      });
    }
  }

  /** Call, with what goes wrong as an unchecked exception that has the broker's error as its cause. */
  private static <T> T get(Callable<T> call) {
    try {
      return call.call();
    } catch (ExecutionException error) {
      throw new IllegalStateException(error.getCause());
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
