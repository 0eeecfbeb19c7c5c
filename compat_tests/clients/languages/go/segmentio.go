package main

import (
	"fmt"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

func segmentio() {
	topic := prefix + "-segmentio"
	client := &kafka.Client{Addr: kafka.TCP(bootstrap)}
	run("topics", func() {
		made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
			Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}},
		})
		check(err)
		check(made.Errors[topic])
		eventually("two partitions", func() bool {
			told, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
			check(err)
			return len(told.Topics[0].Partitions) == 2
		})
	})
	compressions := []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}
	run("compressions", func() {
		for _, codec := range compressions {
			segmentioProduce(topic, codec)
		}
	})
	run("groups", func() { segmentioGroup(topic, perCodec*len(compressions)) })
	run("producer ids", func() {
		made, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: topic, TransactionTimeoutMs: 10000})
		check(err)
		check(made.Error)
		expect("epoch", made.Producer.ProducerEpoch, 0)
	})
	run("deleting", func() {
		gone, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		check(err)
		check(gone.Errors[topic])
	})
}

func segmentioProduce(topic string, codec kafka.Compression) {
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, Compression: codec, Balancer: &kafka.Hash{},
		RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
	}
	messages := []kafka.Message{}
	for number := 0; number < perCodec; number++ {
		messages = append(messages, kafka.Message{
			Key: []byte(codec.String()), Value: fmt.Appendf(nil, "%s-%d", codec, number),
			Headers: []kafka.Header{{Key: "codec", Value: []byte(codec.String())}},
		})
	}
	check(writer.WriteMessages(ctx, messages...))
	check(writer.Close())
}

func segmentioGroup(topic string, wanted int) {
	options := kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: topic + "-group", Topic: topic, StartOffset: kafka.FirstOffset,
		MaxWait: 500 * time.Millisecond,
	}
	reader := kafka.NewReader(options)
	next := map[string]int{}
	for number := 0; number < wanted; number++ {
		message, err := reader.FetchMessage(ctx)
		check(err)
		key := string(message.Key)
		expect("value", string(message.Value), fmt.Sprintf("%s-%d", key, next[key]))
		expect("header", string(message.Headers[0].Value), key)
		next[key]++
		if number == wanted-1 || number%100 == 0 {
			check(reader.CommitMessages(ctx, message))
		}
	}
	check(reader.Close())
}
