// kafkajs logs in, produces and consumes a record, or prints "refused ERROR":
// node login.js BOOTSTRAP TOPIC MECHANISM USER PASSWORD CA
//
// With OAUTHBEARER, PASSWORD is the token; kafkajs does not notice that it is refused until the next request fails.
// MECHANISM is "" without SASL, CA is "" without TLS.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const { Kafka, logLevel } = require('kafkajs');

const [bootstrap, topic, mechanism, username, password, ca] = process.argv.slice(2);
function login() {
  if (mechanism === 'OAUTHBEARER') {
    return { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: password }) };
  }
  return { mechanism: mechanism.toLowerCase(), username, password };
}

const kafka = new Kafka({
  clientId: 'kwire-test',
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { retries: 0 },
  ssl: ca ? { ca: fs.readFileSync(ca) } : false,
  sasl: mechanism ? login() : undefined,
});

async function main() {
  const admin = kafka.admin();
  try {
    await admin.connect();
    await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: true });
  } catch (error) {
    console.log('refused', `${error.name}: ${error.message}`);
    return;
  }
  await admin.disconnect();
  const patient = { retry: { retries: 5 } };
  const producer = kafka.producer(patient);
  await producer.connect();
  await producer.send({ topic, messages: [{ value: 'value' }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: `${topic}-group`, ...patient });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const value = await new Promise((resolve) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(`${message.value}`) });
  });
  assert.equal(value, 'value');
  await consumer.disconnect();
  console.log('ok login');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
