package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

var saramaCodecs = []sarama.CompressionCodec{
	sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4,
	sarama.CompressionZSTD,
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func saramaClient() {
	brokers, topic := []string{bootstrap}, prefix+"-sarama"
	admin, err := sarama.NewClusterAdmin(brokers, saramaConfig())
	check(err)
	defer admin.Close()
	run("topics", func() {
		check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false))
		eventually("two partitions", func() bool {
			described, err := admin.DescribeTopics([]string{topic})
			check(err)
			return len(described[0].Partitions) == 2
		})
	})
	run("compressions", func() { saramaCompressions(brokers, topic) })
	run("groups", func() { saramaGroup(admin, brokers, topic) })
	run("transactions", func() { saramaTransactions(admin, brokers) })
	run("deleting", func() { check(admin.DeleteTopic(topic)) })
}

func saramaCompressions(brokers []string, topic string) {
	for _, codec := range saramaCodecs {
		config := saramaConfig()
		config.Producer.Compression = codec
		producer, err := sarama.NewSyncProducer(brokers, config)
		check(err)
		messages := []*sarama.ProducerMessage{}
		for number := 0; number < perCodec; number++ {
			messages = append(messages, &sarama.ProducerMessage{
				Topic: topic, Key: sarama.StringEncoder(codec.String()),
				Value:   sarama.StringEncoder(fmt.Sprintf("%s-%d", codec, number)),
				Headers: []sarama.RecordHeader{{Key: []byte("codec"), Value: []byte(codec.String())}},
			})
		}
		check(producer.SendMessages(messages))
		check(producer.Close())
	}
}

type handler struct {
	messages chan *sarama.ConsumerMessage
}

func (*handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		h.messages <- message
	}
	return nil
}

func saramaGroup(admin sarama.ClusterAdmin, brokers []string, topic string) {
	group := topic + "-group"
	consumer, err := sarama.NewConsumerGroup(brokers, group, saramaConfig())
	check(err)
	received := &handler{messages: make(chan *sarama.ConsumerMessage, 10000)}
	go consumer.Consume(ctx, []string{topic}, received)
	next := map[string]int{}
	for total := 0; total < perCodec*len(saramaCodecs); total++ {
		select {
		case message := <-received.messages:
			key := string(message.Key)
			expect("value", string(message.Value), fmt.Sprintf("%s-%d", key, next[key]))
			expect("header", string(message.Headers[0].Value), key)
			next[key]++
		case <-ctx.Done():
			check(ctx.Err())
		}
	}
	check(consumer.Close())
	offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1}})
	check(err)
	total := int64(0)
	for _, each := range offsets.Blocks[topic] {
		total += each.Offset
	}
	expect("committed", total, perCodec*len(saramaCodecs))
}

func saramaTransactions(admin sarama.ClusterAdmin, brokers []string) {
	topic := prefix + "-sarama-txn"
	check(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	config := saramaConfig()
	config.Producer.Transaction.ID = topic
	producer, err := sarama.NewSyncProducer(brokers, config)
	check(err)
	for round, end := range []func() error{producer.CommitTxn, producer.AbortTxn, producer.CommitTxn} {
		check(producer.BeginTxn())
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(round))})
		check(err)
		offset := []*sarama.PartitionOffsetMetadata{{Partition: 0, Offset: int64(10 + round)}}
		check(producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{topic: offset}, topic))
		check(end())
	}
	check(producer.Close())
	reading := saramaConfig()
	reading.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(brokers, reading)
	check(err)
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	check(err)
	for _, wanted := range []string{"0", "2"} {
		select {
		case message := <-partition.Messages():
			expect("committed", string(message.Value), wanted)
		case <-time.After(20 * time.Second):
			fail("%s was not read", wanted)
		}
	}
	check(partition.Close())
	check(consumer.Close())
	offsets, err := admin.ListConsumerGroupOffsets(topic, map[string][]int32{topic: {0}})
	check(err)
	expect("offset of the last transaction", offsets.Blocks[topic][0].Offset, 12)
}
