package fourfold;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Stands before the Kafka door and loses answers to Produce on demand: the request arrives, its answer does not, the connection
 * breaks. Answers that name the broker's port are changed to name the proxy's, so that clients stay on it.
 */
final class LossyProxy implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    private final int target;
    private final AtomicInteger toLose = new AtomicInteger();
    final AtomicInteger lost = new AtomicInteger();

    LossyProxy(String address) throws IOException {
        target = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
        daemon(() -> {
            while (true) {
                Socket client = listener.accept();
                daemon(() -> serve(client));
            }
        });
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** The next {@code count} answers to Produce are lost, each with its connection. */
    void loseProduceAnswers(int count) {
        toLose.set(count);
    }

    private void serve(Socket client) throws IOException {
        Set<Integer> produce = ConcurrentHashMap.newKeySet();
        try (client; Socket server = new Socket("127.0.0.1", target)) {
            daemon(() -> {
                try (server) {
                    DataInputStream requests = new DataInputStream(client.getInputStream());
                    while (true) {
                        ByteBuffer request = frame(requests);
                        if (request.getShort(4) == 0) {
                            produce.add(request.getInt(8));
                        }
                        server.getOutputStream().write(request.array());
                    }
                }
            });
            DataInputStream answers = new DataInputStream(server.getInputStream());
            while (true) {
                ByteBuffer answer = frame(answers);
                if (produce.contains(answer.getInt(4)) && toLose.getAndUpdate(n -> Math.max(0, n - 1)) > 0) {
                    lost.incrementAndGet();
                    return;
                }
                renamePort(answer);
                client.getOutputStream().write(answer.array());
            }
        } catch (EOFException ended) {
            // One side has gone, the other follows.
        }
    }

    private void renamePort(ByteBuffer answer) {
        byte[] host = "127.0.0.1".getBytes(StandardCharsets.US_ASCII);
        byte[] all = answer.array();
        for (int at = 0; at + host.length + 4 <= all.length; at++) {
            boolean here = java.util.Arrays.equals(all, at, at + host.length, host, 0, host.length);
            if (here && answer.getInt(at + host.length) == target) {
                answer.putInt(at + host.length, listener.getLocalPort());
            }
        }
    }

    private static ByteBuffer frame(DataInputStream from) throws IOException {
        int size = from.readInt();
        ByteBuffer whole = ByteBuffer.allocate(4 + size).putInt(0, size);
        from.readFully(whole.array(), 4, size);
        return whole;
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void daemon(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException ended) {
                // The connection or the proxy has gone.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
