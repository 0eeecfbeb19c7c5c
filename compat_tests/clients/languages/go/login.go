package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/segmentio/kafka-go"
	saslplain "github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// How to log in: go run . BOOTSTRAP TOPIC CLIENT MECHANISM USER PASSWORD CA
// With OAUTHBEARER, PASSWORD is the token; with GSSAPI, USER is a principal and PASSWORD its keytab, and KRB5_CONFIG is
// set. MECHANISM is "" without SASL, CA is "" without TLS. A record is produced and consumed, or "refused ERROR" is
// printed.
type login struct {
	mechanism, user, password string
	tls                       *tls.Config
}

func loginOf(arguments []string) login {
	found := login{mechanism: arguments[0], user: arguments[1], password: arguments[2]}
	if arguments[3] != "" {
		pem, err := os.ReadFile(arguments[3])
		check(err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		found.tls = &tls.Config{RootCAs: roots}
	}
	return found
}

// Token makes a login a token provider of sarama.
func (how login) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: how.password}, nil
}

const service = "kafka"

// Name and realm of a principal.
func (how login) principal() (string, string) {
	name, realm, _ := strings.Cut(how.user, "@")
	return name, realm
}

// A client of the realm; only for GSSAPI.
func (how login) kerberos() *client.Client {
	if how.mechanism != "GSSAPI" {
		return nil
	}
	realms, err := config.Load(os.Getenv("KRB5_CONFIG"))
	check(err)
	keys, err := keytab.Load(how.password)
	check(err)
	name, realm := how.principal()
	return client.NewWithKeytab(name, realm, keys, realms, client.DisablePAFXFAST(true))
}

func refused(err error) bool {
	if err != nil {
		fmt.Println("refused", err)
	}
	return err != nil
}

func franzLogin(how login) {
	options := []kgo.Opt{kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics(prefix),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if how.tls != nil {
		options = append(options, kgo.DialTLSConfig(how.tls))
	}
	if how.mechanism != "" {
		auth := scram.Auth{User: how.user, Pass: how.password}
		options = append(options, kgo.SASL(map[string]sasl.Mechanism{
			"GSSAPI":        kerberos.Auth{Client: how.kerberos(), Service: service}.AsMechanism(),
			"OAUTHBEARER":   oauth.Auth{Token: how.password}.AsMechanism(),
			"PLAIN":         plain.Auth{User: how.user, Pass: how.password}.AsMechanism(),
			"SCRAM-SHA-256": auth.AsSha256Mechanism(),
			"SCRAM-SHA-512": auth.AsSha512Mechanism(),
		}[how.mechanism]))
	}
	client := franzClient(options...)
	defer client.Close()
	if refused(client.Ping(ctx)) {
		return
	}
	run("login", func() {
		check(client.ProduceSync(ctx, &kgo.Record{Topic: prefix, Value: []byte("value")}).FirstErr())
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		expect("value", string(fetches.Records()[0].Value), "value")
	})
}

func saramaLogin(how login) {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Metadata.Retry.Max = 0
	config.Producer.Return.Successes = true
	config.Net.TLS.Enable, config.Net.TLS.Config = how.tls != nil, how.tls
	if how.mechanism != "" {
		config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, sarama.SASLMechanism(how.mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = how.user, how.password
		config.Net.SASL.TokenProvider = how
		name, realm := how.principal()
		config.Net.SASL.GSSAPI = sarama.GSSAPIConfig{
			AuthType: sarama.KRB5_KEYTAB_AUTH, KeyTabPath: how.password, KerberosConfigPath: os.Getenv("KRB5_CONFIG"),
			ServiceName: service, Username: name, Realm: realm, DisablePAFXFAST: true,
		}
	}
	client, err := sarama.NewClient([]string{bootstrap}, config)
	if refused(err) {
		return
	}
	defer client.Close()
	run("login", func() {
		admin, err := sarama.NewClusterAdminFromClient(client)
		check(err)
		check(admin.CreateTopic(prefix, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
		eventually("the topic", func() bool {
			check(client.RefreshMetadata())
			partitions, err := client.Partitions(prefix)
			return err == nil && len(partitions) == 1
		})
		producer, err := sarama.NewSyncProducerFromClient(client)
		check(err)
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: prefix, Value: sarama.StringEncoder("value")})
		check(err)
		consumer, err := sarama.NewConsumerFromClient(client)
		check(err)
		partition, err := consumer.ConsumePartition(prefix, 0, sarama.OffsetOldest)
		check(err)
		expect("value", string((<-partition.Messages()).Value), "value")
		check(partition.Close())
	})
}

func segmentioLogin(how login) {
	dialer := &kafka.Dialer{TLS: how.tls}
	if how.mechanism != "" {
		dialer.SASLMechanism = saslplain.Mechanism{Username: how.user, Password: how.password}
	}
	connection, err := dialer.DialContext(ctx, "tcp", bootstrap)
	if refused(err) {
		return
	}
	run("login", func() {
		check(connection.CreateTopics(kafka.TopicConfig{Topic: prefix, NumPartitions: 1, ReplicationFactor: 1}))
		check(connection.Close())
		var leader *kafka.Conn
		eventually("the leader", func() bool {
			leader, err = dialer.DialLeader(ctx, "tcp", bootstrap, prefix, 0)
			return err == nil
		})
		defer leader.Close()
		_, err = leader.WriteMessages(kafka.Message{Value: []byte("value")})
		check(err)
		message, err := leader.ReadMessage(1 << 20)
		check(err)
		expect("value", string(message.Value), "value")
	})
}
