// A broker of the test's own: started on free ports in a folder of its own, stopped, killed, and started again as it was. With
// PEER_KAFKA=host:port or PEER_AMQP=host:port the tests run against that broker instead, to judge the tests themselves on the
// real system.
'use strict';

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: pause } = require('node:timers/promises');

let names = 0;

/** A name that no other test uses. */
const name = (what) => `${what}-${process.pid}-${++names}`;

/** Waits until `probe()` is truthy and answers it. */
async function eventually(what, probe, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const answer = await probe();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await pause(20);
  }
}

class Broker {
  constructor() {
    this.peer = process.env.PEER_KAFKA ?? process.env.PEER_AMQP;
    this.home = fs.mkdtempSync(path.join(os.tmpdir(), 'fourfold-'));
    this.doors = { kafka: '127.0.0.1:0', amqp: '127.0.0.1:0', http: '127.0.0.1:0' };
  }

  /** host:port for Kafka clients. */
  get kafka() {
    return this.peer ?? this.doors.kafka;
  }

  /** host:port for AMQP clients. */
  get amqp() {
    return this.peer ?? this.doors.amqp;
  }

  /** Starts it, on the ports that it had before, and waits until it is ready. */
  async start() {
    if (this.peer) return this;
    const ready = path.join(this.home, 'ready.json');
    fs.rmSync(ready, { force: true });
    const args = ['serve', '--data', path.join(this.home, 'data'), '--ready-file', ready];
    for (const [door, address] of Object.entries(this.doors)) args.push(`--${door}`, address);
    const log = fs.openSync(path.join(this.home, 'log.txt'), 'a');
    const child = spawn(process.env.FOURFOLD_BIN, args, { stdio: ['ignore', log, log] });
    fs.closeSync(log);
    this.ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
    this.child = child;
    await eventually('fourfold is ready', () => {
      if (child.exitCode !== null) throw new Error(`fourfold ended with ${child.exitCode}\n${this.log()}`);
      return fs.existsSync(ready);
    }, 30);
    Object.assign(this.doors, JSON.parse(fs.readFileSync(ready, 'utf8')).doors);
    return this;
  }

  /** SIGKILL. */
  async kill() {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** SIGTERM, and a clean end. */
  async stop() {
    this.child.kill('SIGTERM');
    const { code } = await this.ended;
    if (code !== 0) throw new Error(`fourfold ended with ${code}\n${this.log()}`);
  }

  log() {
    return fs.readFileSync(path.join(this.home, 'log.txt'), 'utf8').split('\n').slice(-40).join('\n');
  }

  async close() {
    if (this.peer) return;
    const died = this.child.exitCode !== null && this.child.exitCode !== 0;
    const log = this.log();
    this.child.kill('SIGKILL');
    await this.ended;
    fs.rmSync(this.home, { recursive: true, force: true });
    if (died) throw new Error(`fourfold died\n${log}`);
  }
}

module.exports = { Broker, eventually, name };
