// Stands before the Kafka door and loses answers to Produce on demand: the request arrives, its answer does not, the connection
// breaks. Answers that name the broker's port are changed to name the proxy's, so that clients stay on it.
'use strict';

const net = require('node:net');

/** Calls `each` with every whole frame that comes from `socket`. */
function frames(socket, each) {
  let rest = Buffer.alloc(0);
  socket.on('data', (data) => {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
      const end = 4 + rest.readInt32BE(0);
      each(rest.subarray(0, end));
      rest = rest.subarray(end);
    }
  });
}

/** host as text and port in four bytes: how answers name an address. */
function wireAddress(port) {
  const bytes = Buffer.from('127.0.0.1....');
  bytes.writeInt32BE(port, 9);
  return bytes;
}

async function lossyProxy(address) {
  const target = Number(address.split(':').pop());
  const proxy = { toLose: 0, lost: 0 };
  const server = net.createServer((client) => {
    const broker = net.connect(target, '127.0.0.1');
    const produce = new Set();
    const end = () => {
      client.destroy();
      broker.destroy();
    };
    for (const socket of [client, broker]) socket.on('error', end).on('close', end);
    frames(client, (request) => {
      if (request.readInt16BE(4) === 0) produce.add(request.readInt32BE(8));
      broker.write(request);
    });
    frames(broker, (answer) => {
      if (client.destroyed) return;
      if (produce.has(answer.readInt32BE(4)) && proxy.toLose > 0) {
        proxy.toLose--;
        proxy.lost++;
        end();
        return;
      }
      for (let at = answer.indexOf(proxy.own); at >= 0; at = answer.indexOf(proxy.own, at + 1)) proxy.mine.copy(answer, at);
      client.write(answer);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy.address = `127.0.0.1:${server.address().port}`;
  proxy.own = wireAddress(target);
  proxy.mine = wireAddress(server.address().port);
  proxy.close = () => server.close();
  return proxy;
}

module.exports = { lossyProxy };
