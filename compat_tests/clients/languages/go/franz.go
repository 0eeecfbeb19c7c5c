package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func franzClient(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	check(err)
	return client
}

func franz() {
	admin := kadm.NewClient(franzClient())
	defer admin.Close()
	topic := prefix + "-franz"
	run("topics", func() {
		_, err := admin.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, topic)
		check(err)
		eventually("three partitions", func() bool {
			listed, err := admin.ListTopics(ctx, topic)
			check(err)
			return len(listed[topic].Partitions) == 3
		})
		configs, err := admin.DescribeTopicConfigs(ctx, topic)
		check(err)
		for _, config := range configs[0].Configs {
			if config.Key == "retention.ms" {
				expect("retention.ms", *config.Value, "3600000")
			}
		}
	})
	run("compressions", func() { franzCompressions(topic) })
	run("groups", func() { franzGroup(admin, topic) })
	run("transactions", func() { franzTransactions(admin) })
	run("copying exactly once", func() { franzCopy(admin) })
	run("deleting", func() {
		_, err := admin.DeleteTopic(ctx, topic)
		check(err)
	})
}

func franzCompressions(topic string) {
	for name, codec := range codecs {
		producer := franzClient(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic))
		for number := 0; number < perCodec; number++ {
			producer.Produce(ctx, &kgo.Record{
				Key: []byte(name), Value: fmt.Appendf(nil, "%s-%d", name, number),
				Headers: []kgo.RecordHeader{{Key: "codec", Value: []byte(name)}},
			}, func(_ *kgo.Record, err error) { check(err) })
		}
		check(producer.Flush(ctx))
		producer.Close()
	}
	reader := franzClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	next := map[string]int{}
	for total := 0; total < perCodec*len(codecs); {
		fetches := reader.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			key := string(record.Key)
			expect("value", string(record.Value), fmt.Sprintf("%s-%d", key, next[key]))
			expect("header", string(record.Headers[0].Value), key)
			next[key]++
			total++
		})
	}
}

// Two members share the partitions; what they commit is where a later one goes on.
func franzGroup(admin *kadm.Client, topic string) {
	group := topic + "-group"
	member := func() *kgo.Client {
		return franzClient(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	first := member()
	seen := 0
	for seen < perCodec*len(codecs) {
		fetches := first.PollFetches(ctx)
		check(fetches.Err())
		seen += fetches.NumRecords()
	}
	expect("records", seen, perCodec*len(codecs))
	check(first.CommitUncommittedOffsets(ctx))
	described, err := admin.DescribeGroups(ctx, group)
	check(err)
	expect("members", len(described[group].Members), 1)
	first.Close()
	committed, err := admin.FetchOffsets(ctx, group)
	check(err)
	total := int64(0)
	committed.Each(func(each kadm.OffsetResponse) { total += each.At })
	expect("committed", total, perCodec*len(codecs))
	second := member()
	check(second.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("afterwards")}).FirstErr())
	fetches := second.PollFetches(ctx)
	check(fetches.Err())
	expect("first after the commit", string(fetches.Records()[0].Value), "afterwards")
	second.Close()
}

func committedValues(topic string, wanted int) []string {
	reader := franzClient(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	values := []string{}
	for len(values) < wanted {
		fetches := reader.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

func franzTransactions(admin *kadm.Client) {
	topic := prefix + "-franz-txn"
	_, err := admin.CreateTopic(ctx, 1, 1, nil, topic)
	check(err)
	producer := franzClient(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	for round, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		check(producer.BeginTransaction())
		for number := 0; number < 3; number++ {
			check(producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("%d-%d", round, number))).FirstErr())
		}
		check(producer.EndTransaction(ctx, end))
	}
	producer.Close()
	expect("committed", committedValues(topic, 6), []string{"0-0", "0-1", "0-2", "2-0", "2-1", "2-2"})
}

func franzCopy(admin *kadm.Client) {
	from, to := prefix+"-franz-from", prefix+"-franz-to"
	_, err := admin.CreateTopics(ctx, 1, 1, nil, from, to)
	check(err)
	producer := franzClient(kgo.DefaultProduceTopic(from))
	for number := 0; number < perCodec; number++ {
		producer.Produce(ctx, kgo.StringRecord(fmt.Sprint(number)), func(_ *kgo.Record, err error) { check(err) })
	}
	check(producer.Flush(ctx))
	producer.Close()
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(to),
		kgo.ConsumerGroup(to), kgo.ConsumeTopics(from), kgo.DefaultProduceTopic(to), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	check(err)
	for copied := 0; copied < perCodec; {
		fetches := session.PollFetches(ctx)
		check(fetches.Err())
		check(session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Value: record.Value}, func(_ *kgo.Record, err error) { check(err) })
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		check(err)
		if committed {
			copied += fetches.NumRecords()
		}
	}
	session.Close()
	values := committedValues(to, perCodec)
	expect("copies", len(values), perCodec)
	for number, value := range values {
		expect("copy", value, number)
	}
}
