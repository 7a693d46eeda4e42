// What amqplib is promised: routing, confirms, the cases of acknowledgements, survival.
'use strict';

const { test, before, after, describe } = require('node:test');
const assert = require('node:assert/strict');
const amqp = require('amqplib');
const { Broker, eventually, name } = require('../../support/node/broker');

const broker = new Broker();
let connection;

const connect = (to, options = '') => amqp.connect(`amqp://guest:guest@${to.amqp}/${options}`);

before(async () => {
  await broker.start();
  connection = await connect(broker);
});

after(async () => {
  await connection.close();
  await broker.close();
});

/** A message by basic.get, waited for. */
const get = (channel, queue, options) => eventually(`a message in ${queue}`, () => channel.get(queue, options));

/** All that is in a queue now. */
async function drain(channel, queue) {
  const bodies = [];
  for (let one; (one = await channel.get(queue, { noAck: true })); ) bodies.push(one.content.toString());
  return bodies;
}

/** The error with which `act` on a new channel ends it. */
async function refused(act) {
  const channel = await connection.createChannel();
  const ended = new Promise((resolve) => channel.once('error', resolve));
  act(channel)?.catch?.(() => {});
  return ended;
}

describe('exchanges', () => {
  test('topic patterns', async () => {
    const channel = await connection.createConfirmChannel();
    const exchange = name('topic');
    await channel.assertExchange(exchange, 'topic');
    const patterns = { 'a.*.c': ['a.b.c'], 'a.#': ['a', 'a.b', 'a.b.c', 'a.b.b.c'], '#.c': ['a.b.c', 'a.b.b.c', 'c'] };
    const queues = {};
    for (const pattern of Object.keys(patterns)) {
      queues[pattern] = (await channel.assertQueue(name('q'))).queue;
      await channel.bindQueue(queues[pattern], exchange, pattern);
    }
    for (const key of ['a', 'a.b', 'a.b.c', 'a.b.b.c', 'c']) channel.publish(exchange, key, Buffer.from(key));
    await channel.waitForConfirms();
    for (const [pattern, keys] of Object.entries(patterns)) assert.deepEqual(await drain(channel, queues[pattern]), keys);
    await channel.close();
  });

  test('headers, bindings between exchanges, alternates', async () => {
    const channel = await connection.createConfirmChannel();
    const [from, to, rest, queue, left] = ['from', 'to', 'rest', 'queue', 'left'].map(name);
    await channel.assertExchange(rest, 'fanout');
    await channel.assertExchange(from, 'direct', { alternateExchange: rest });
    await channel.assertExchange(to, 'headers', { internal: true });
    for (const one of [queue, left]) await channel.assertQueue(one);
    await channel.bindExchange(to, from, 'k');
    await channel.bindQueue(queue, to, '', { 'x-match': 'all', colour: 'red', n: 1 });
    await channel.bindQueue(left, rest, '');
    channel.publish(from, 'k', Buffer.from('red'), { headers: { colour: 'red', n: 1 } });
    channel.publish(from, 'k', Buffer.from('blue'), { headers: { colour: 'blue', n: 1 } });
    channel.publish(from, 'other', Buffer.from('rest'));
    await channel.waitForConfirms();
    assert.deepEqual([await drain(channel, queue), await drain(channel, left)], [['red'], ['rest']]);
    await channel.unbindExchange(to, from, 'k');
    await channel.close();
    const error = await refused((ch) => ch.publish(to, '', Buffer.from('x')));
    assert.match(error.message, /403 .*cannot publish to internal exchange/);
  });

  test('copies by CC and BCC', async () => {
    const channel = await connection.createConfirmChannel();
    const queues = [name('q'), name('q'), name('q')];
    for (const queue of queues) await channel.assertQueue(queue);
    channel.sendToQueue(queues[0], Buffer.from('x'), { CC: queues[1], BCC: [queues[2]] });
    await channel.waitForConfirms();
    for (const queue of queues) {
      const { properties } = await get(channel, queue);
      assert.deepEqual(properties.headers, { CC: [queues[1]] });
    }
    await channel.close();
  });

  test('an unequal exchange and an unknown type close the channel with their reason', async () => {
    const exchange = name('x');
    const channel = await connection.createChannel();
    await channel.assertExchange(exchange, 'topic');
    await channel.close();
    const unequal = await refused((ch) => ch.assertExchange(exchange, 'fanout'));
    assert.match(unequal.message, /406 .*inequivalent arg 'type' .*received 'fanout' but current is 'topic'/);
    if (!broker.peer) { // 3.10 closes the connection for it, 4.x the channel
      assert.match((await refused((ch) => ch.assertExchange(name('x'), 'bogus'))).message, /406 .*unknown exchange type/);
    }
  });
});

describe('publishing', () => {
  test('A11: what nobody takes comes back before its confirm', async () => {
    const channel = await connection.createConfirmChannel();
    const told = [];
    channel.on('return', (message) => told.push(`return ${message.fields.replyCode} ${message.content}`));
    for (let n = 0; n < 20; n++) {
      const note = (error) => told.push(`${error ? 'nack' : 'ack'} ${n}`);
      channel.publish('', n % 2 ? 'nobody-has-this-name' : 'nor-this', Buffer.from(`${n}`), { mandatory: n % 2 === 1 }, note);
    }
    await channel.waitForConfirms();
    for (let n = 1; n < 20; n += 2) {
      const [back, confirmed] = [told.indexOf(`return 312 ${n}`), told.indexOf(`ack ${n}`)];
      assert.ok(back >= 0 && back < confirmed, told.join(', '));
    }
    await channel.close();
  });

  test('A12: direct answers', async () => {
    const [client, worker] = [await connection.createChannel(), await connection.createChannel()];
    const work = (await worker.assertQueue(name('work'))).queue;
    await worker.consume(work, (message) => {
      const { replyTo, correlationId } = message.properties;
      worker.sendToQueue(replyTo, Buffer.from(`re: ${message.content}`), { correlationId });
    }, { noAck: true });
    const answers = [];
    await client.consume('amq.rabbitmq.reply-to', (message) => answers.push(message), { noAck: true });
    for (let n = 0; n < 50; n++) {
      client.sendToQueue(work, Buffer.from(`${n}`), { replyTo: 'amq.rabbitmq.reply-to', correlationId: `${n}` });
    }
    await eventually('all answers', () => answers.length === 50);
    for (const { content, properties } of answers) assert.equal(`${content}`, `re: ${properties.correlationId}`);
    await client.close();
    await worker.close();
    const early = await refused((ch) => ch.sendToQueue(work, Buffer.from('?'), { replyTo: 'amq.rabbitmq.reply-to' }));
    assert.match(early.message, /406 .*fast reply consumer does not exist/);
    assert.match((await refused((ch) => ch.consume('amq.rabbitmq.reply-to', () => {}))).message, /406 .*cannot acknowledge/);
  });

  test('a large message and an empty one', async () => {
    const channel = await connection.createConfirmChannel();
    const queue = (await channel.assertQueue(name('q'))).queue;
    const large = Buffer.alloc(3_000_000, 'x');
    for (const body of [large, Buffer.alloc(0)]) channel.sendToQueue(queue, body, { persistent: true });
    await channel.waitForConfirms();
    assert.ok((await get(channel, queue)).content.equals(large));
    assert.equal((await get(channel, queue)).content.length, 0);
    await channel.close();
  });

  test('frames of 4,096 bytes, the least that the protocol allows', async () => {
    const own = await connect(broker, '?frameMax=4096');
    const channel = await own.createConfirmChannel();
    const queue = (await channel.assertQueue(name('q'))).queue;
    const body = Buffer.alloc(50_000, 'y');
    channel.sendToQueue(queue, body);
    await channel.waitForConfirms();
    assert.ok((await get(channel, queue)).content.equals(body));
    await own.close();
  });

  test('smaller frames are refused, and others go on', async () => {
    await assert.rejects(connect(broker, '?frameMax=1000'));
    const channel = await connection.createConfirmChannel();
    const queue = (await channel.assertQueue(name('q'))).queue;
    channel.sendToQueue(queue, Buffer.from('still here'));
    await channel.waitForConfirms();
    await channel.close();
  });
});

describe('consuming', () => {
  test('A14: a second ack closes the channel, and what was unacknowledged comes again', async () => {
    const channel = await connection.createChannel();
    const queue = (await channel.assertQueue(name('q'))).queue;
    for (const body of ['1', '2']) channel.sendToQueue(queue, Buffer.from(body));
    const ended = new Promise((resolve) => channel.once('error', resolve));
    const first = await get(channel, queue);
    await get(channel, queue);
    channel.ack(first);
    channel.ack(first);
    assert.match((await ended).message, /406 .*unknown delivery tag 1/);
    const other = await connection.createChannel();
    const again = await get(other, queue);
    assert.deepEqual([`${again.content}`, again.fields.redelivered], ['2', true]);
    await other.close();
  });

  test('A17: a consumer is told when its queue goes', async () => {
    const [channel, other] = [await connection.createChannel(), await connection.createChannel()];
    const queue = (await channel.assertQueue(name('q'))).queue;
    const told = new Promise((resolve) => channel.consume(queue, resolve, { consumerTag: 'tag' }));
    await eventually('the consumer is there', async () => (await other.checkQueue(queue)).consumerCount === 1);
    await other.deleteQueue(queue);
    assert.equal(await told, null);
    await channel.cancel('tag');
    assert.equal((await channel.deleteQueue(queue)).messageCount, 0);
    await channel.close();
    await other.close();
  });

  test('A06: an exclusive queue is locked to others', async () => {
    const own = await connect(broker);
    const channel = await own.createChannel();
    const queue = name('q');
    await channel.assertQueue(queue, { exclusive: true, durable: false });
    assert.match((await refused((ch) => ch.assertQueue(queue))).message, /405 .*cannot obtain exclusive access/);
    await own.close();
    const free = await connection.createChannel();
    assert.equal((await free.assertQueue(queue)).queue, queue);
    await free.close();
  });

  test('order is kept through nack and recover', async () => {
    const channel = await connection.createChannel();
    const queue = (await channel.assertQueue(name('q'))).queue;
    for (let n = 0; n < 5; n++) channel.sendToQueue(queue, Buffer.from(`${n}`));
    const got = [];
    for (let n = 0; n < 4; n++) got.push(await get(channel, queue));
    for (const n of [1, 3, 0]) channel.nack(got[n], false, true);
    await channel.recover();
    assert.deepEqual(await drain(channel, queue), ['0', '1', '2', '3', '4']);
    await channel.close();
  });
});

test('what is confirmed survives a kill, with exchanges and bindings', async () => {
  if (broker.peer) return;
  const own = await new Broker().start();
  const before = await connect(own);
  before.on('error', () => {});
  const channel = await before.createConfirmChannel();
  channel.on('error', () => {});
  await channel.assertExchange('x', 'topic', { durable: true });
  await channel.assertQueue('q', { durable: true });
  await channel.bindQueue('q', 'x', 'k.#');
  for (let n = 0; n < 200; n++) channel.publish('x', `k.${n}`, Buffer.from(`${n}`), { persistent: true });
  await channel.waitForConfirms();
  await own.kill();
  await own.start();
  const again = await connect(own);
  const reading = await again.createChannel();
  assert.deepEqual(await drain(reading, 'q'), Array.from({ length: 200 }, (_, n) => `${n}`));
  await again.close();
  await own.close();
});
