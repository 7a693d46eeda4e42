// What kafkajs is promised.
'use strict';

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { Kafka, Partitioners, logLevel } = require('kafkajs');
const { Broker, eventually, name } = require('../../support/node/broker');
const { CompressionTypes } = require('./codecs');
const { lossyProxy } = require('./proxy');

let broker;
before(async () => {
  broker = await new Broker().start();
});
after(() => broker.close());

const client = (address = broker.kafka) =>
  new Kafka({ brokers: [address], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 100 } });

async function withAdmin(work, address) {
  const admin = client(address).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

const create = (topic, numPartitions = 1, address) =>
  withAdmin((admin) => admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1 }], waitForLeaders: true }), address);

async function send(topic, messages, { address, compression, ...options } = {}) {
  const producer = client(address).producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options });
  await producer.connect();
  try {
    return await producer.send({ topic, messages, acks: -1, compression });
  } finally {
    await producer.disconnect();
  }
}

/** A member of a group that keeps what it is given. */
async function member(groupId, topic, options = {}, address) {
  const consumer = client(address).consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 300, ...options });
  const one = { consumer, got: [], share: [] };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    one.share = payload.memberAssignment[topic] ?? [];
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => one.got.push({ partition, ...message }),
  });
  return one;
}

async function readAll(topic, count, address) {
  const one = await member(name('reads'), topic, {}, address);
  await eventually(`${count} messages of ${topic}`, () => one.got.length >= count);
  await one.consumer.disconnect();
  return one.got;
}

const numbers = (from, to) => Array.from({ length: to - from }, (_, n) => ({ value: String(from + n) }));

for (const codec of ['None', 'GZIP', 'Snappy', 'LZ4', 'ZSTD']) {
  test(`messages come back as sent with codec ${codec}`, async () => {
    const topic = name('codec');
    await create(topic);
    const sent = numbers(0, 200).map((one, n) => ({ key: `k${n}`, headers: { n: `${n}` }, value: one.value.repeat(30) }));
    await send(topic, sent, { compression: CompressionTypes[codec] });
    const got = await readAll(topic, 200);
    assert.deepEqual(
      got.map(({ key, value, headers }) => ({ key: `${key}`, headers: { n: `${headers.n}` }, value: `${value}` })),
      sent,
    );
    assert.deepEqual(got.map(({ offset }) => Number(offset)), numbers(0, 200).map(({ value }) => Number(value)));
  });
}

test('keys choose the partitions that Java would choose', async () => {
  const topic = name('keys');
  await create(topic, 10);
  for (const [key, wanted] of [['order-1', 6], ['order-2', 3], ['abc', 7]]) {
    const [{ partition }] = await send(topic, [{ key, value: 'x' }]);
    assert.equal(partition, wanted, key);
  }
});

test('lost answers make no second copy for an idempotent producer', async () => {
  const topic = name('lost');
  await create(topic);
  const proxy = await lossyProxy(broker.kafka);
  const producer = client(proxy.address).producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  await producer.send({ topic, messages: numbers(0, 20) });
  for (let round = 1; round <= 3; round++) {
    proxy.toLose = 1;
    await producer.send({ topic, messages: numbers(round * 20, round * 20 + 20) });
  }
  await producer.disconnect();
  proxy.close();
  assert.equal(proxy.lost, 3);
  await send(topic, [{ value: '80' }]);
  const got = await readAll(topic, 81);
  assert.deepEqual(got.map(({ value }) => `${value}`), numbers(0, 81).map(({ value }) => value));
});

test('a group grows and shrinks, shares in turn, and reads every message', async () => {
  const topic = name('group');
  await create(topic, 10);
  const members = [];
  const settled = (sizes) =>
    eventually(`the shares are ${sizes}`, () => {
      const all = members.flatMap(({ share }) => share);
      const found = members.map(({ share }) => share.length).sort((a, b) => b - a);
      return new Set(all).size === 10 && all.length === 10 && found.join() === sizes;
    });
  for (const sizes of ['10', '5,5', '4,3,3']) {
    members.push(await member(topic, topic));
    await settled(sizes);
  }
  await send(topic, numbers(0, 300));
  const values = () => members.flatMap(({ got }) => got.map(({ value }) => Number(value)));
  await eventually('all are read', () => new Set(values()).size === 300);
  await members[0].consumer.disconnect();
  members[0].share = [];
  const kept = members.shift();
  await settled('5,5');
  await Promise.all(members.map(({ consumer }) => consumer.disconnect()));
  assert.ok(kept.got.length > 0);
});

test('committed offsets are where a group goes on, and are listed', async () => {
  const topic = name('commits');
  await create(topic);
  await send(topic, numbers(0, 10));
  const one = await member(topic, topic);
  await eventually('ten', () => one.got.length >= 10);
  await one.consumer.commitOffsets([{ topic, partition: 0, offset: '4' }]);
  await one.consumer.disconnect();
  const two = await member(topic, topic);
  await eventually('six', () => two.got.length >= 6);
  assert.deepEqual(two.got.map(({ value }) => `${value}`), ['4', '5', '6', '7', '8', '9']);
  await two.consumer.disconnect();
  const [{ partitions }] = await withAdmin((admin) => admin.fetchOffsets({ groupId: topic, topics: [topic] }));
  assert.equal(partitions[0].offset, '4');
});

test('offsets are found by time', async () => {
  const topic = name('times');
  await create(topic);
  const messages = numbers(0, 50).map((one, n) => ({ ...one, timestamp: String(1_700_000_000_000 + n) }));
  await send(topic, messages, { compression: CompressionTypes.GZIP });
  await withAdmin(async (admin) => {
    const find = async (at) => (await admin.fetchTopicOffsetsByTimestamp(topic, at))[0].offset;
    assert.equal(await find(1_700_000_000_020), '20');
    assert.equal(await find(1), '0');
  });
});

test('what cannot be is refused with its reason', async () => {
  const topic = name('refused');
  await withAdmin(async (admin) => {
    const refused = (wanted, request) =>
      assert.rejects(admin.createTopics({ topics: [{ topic, ...request }], waitForLeaders: false }), (why) => {
        const types = (why.errors ?? [why]).map(({ type }) => type);
        assert.deepEqual(types, [wanted]);
        return true;
      });
    await refused('INVALID_REPLICATION_FACTOR', { replicationFactor: 3, numPartitions: 1 });
    await refused('INVALID_PARTITIONS', { replicationFactor: 1, numPartitions: 0 });
    await refused('INVALID_CONFIG', { replicationFactor: 1, numPartitions: 1, configEntries: [{ name: 'retention.ms', value: 'abc' }] });
  });
});

for (const end of ['stop', 'kill']) {
  test(`acknowledged messages and committed offsets survive (${end})`, { skip: process.env.PEER_KAFKA }, async () => {
    const own = await new Broker().start();
    try {
      const topic = name('survive');
      await create(topic, 1, own.kafka);
      await send(topic, numbers(0, 500), { address: own.kafka });
      await withAdmin(
        (admin) => admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: '7' }] }),
        own.kafka,
      );
      await own[end]();
      await own.start();
      await send(topic, numbers(500, 600), { address: own.kafka });
      const got = await readAll(topic, 600, own.kafka);
      assert.deepEqual(got.map(({ value }) => `${value}`), numbers(0, 600).map(({ value }) => value));
      const one = await member(topic, topic, {}, own.kafka);
      await eventually('the group goes on', () => one.got.length > 0);
      assert.equal(`${one.got[0].value}`, '7');
      await one.consumer.disconnect();
    } finally {
      await own.close();
    }
  });
}
