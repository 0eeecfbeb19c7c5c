// kafkajs on a broker, asserting what it sees: node client.js BOOTSTRAP PREFIX
//
// Every scenario prints one line "ok NAME"; the first thing that is not as it should be ends the program with status 1.
// kafkajs compresses with gzip by itself and with Snappy through a codec of its makers; it has neither LZ4 nor Zstandard.
'use strict';
const assert = require('node:assert/strict');
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs');
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');

const [bootstrap, prefix] = process.argv.slice(2);
const kafka = new Kafka({ clientId: 'kwire-test', brokers: [bootstrap], logLevel: logLevel.NOTHING });
const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy };
const perCodec = 100;

async function run(name, scenario) {
  await scenario();
  console.log('ok', name);
}

/** The values that a group reads from a topic's beginning, until there are `wanted` of them. */
async function read(topic, wanted, options = {}) {
  const consumer = kafka.consumer({ groupId: options.group ?? `${topic}-readers`, ...options });
  const seen = [];
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${topic}: ${seen.length} of ${wanted}`)), 30000);
    consumer.run({
      eachMessage: async ({ message, partition }) => {
        seen.push({ partition, key: `${message.key}`, value: `${message.value}`, headers: message.headers });
        if (seen.length === wanted) {
          clearTimeout(timer);
          resolve();
        }
      },
    });
  });
  await consumer.disconnect();
  return seen;
}

async function compressions(topic) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const [name, compression] of Object.entries(codecs)) {
    const messages = Array.from({ length: perCodec }, (_, i) => ({
      key: name, value: `${name}-${i}`, headers: { codec: name },
    }));
    await producer.send({ topic, compression, acks: -1, messages });
  }
  await producer.disconnect();
  const next = { none: 0, gzip: 0, snappy: 0 };
  for (const { key, value, headers } of await read(topic, perCodec * Object.keys(codecs).length)) {
    assert.equal(value, `${key}-${next[key]++}`);
    assert.equal(`${headers.codec}`, key);
  }
}

async function groups(admin, topic) {
  const group = `${topic}-readers`;
  const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  const committed = partitions.reduce((sum, each) => sum + Math.max(0, Number(each.offset)), 0); // -1: nothing committed
  assert.equal(committed, perCodec * Object.keys(codecs).length);
  const { groups: described } = await admin.describeGroups([group]);
  assert.equal(described[0].state, 'Empty');
  // Two members share the partitions.
  const assigned = [0, 0];
  const members = [0, 1].map(() => kafka.consumer({ groupId: `${topic}-pair` }));
  await Promise.all(members.map(async (member, index) => {
    member.on(member.events.GROUP_JOIN, ({ payload }) => {
      assigned[index] = (payload.memberAssignment[topic] ?? []).length;
    });
    await member.connect();
    await member.subscribe({ topic });
    await member.run({ eachMessage: async () => {} });
  }));
  const end = Date.now() + 30000;
  while (!(assigned[0] > 0 && assigned[1] > 0 && assigned[0] + assigned[1] === 3)) {
    assert.ok(Date.now() < end, `partitions of the members: ${assigned}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await Promise.all(members.map((member) => member.disconnect()));
  await admin.deleteGroups([group, `${topic}-pair`]);
}

async function transactions(admin, topic) {
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
  const producer = kafka.producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const [round, end] of ['commit', 'abort', 'commit'].entries()) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ key: 'k', value: `${round}` }] });
    await transaction.sendOffsets({
      consumerGroupId: `${topic}-copy`, topics: [{ topic, partitions: [{ partition: 0, offset: `${10 + round}` }] }],
    });
    await transaction[end]();
  }
  await producer.disconnect();
  assert.deepEqual((await read(topic, 2)).map((each) => each.value), ['0', '2']);
  const [{ partitions }] = await admin.fetchOffsets({ groupId: `${topic}-copy`, topics: [topic] });
  assert.equal(partitions[0].offset, '12');
}

async function main() {
  const admin = kafka.admin();
  const topic = `${prefix}-kafkajs`;
  await admin.connect();
  await run('topics', async () => {
    await admin.createTopics({
      topics: [{ topic, numPartitions: 3, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
    });
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    assert.equal(topics[0].partitions.length, 3);
    const { resources } = await admin.describeConfigs({
      resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }], includeSynonyms: false,
    });
    assert.equal(resources[0].configEntries[0].configValue, '3600000');
  });
  await run('compressions', () => compressions(topic));
  await run('groups', () => groups(admin, topic));
  await run('transactions', () => transactions(admin, `${topic}-txn`));
  await run('deleting', () => admin.deleteTopics({ topics: [topic] }));
  await admin.disconnect();
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
