package fourfold;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;

/** A thread that publishes jobs from its start until it is closed, and remembers which were confirmed; one that fails is given up. */
final class Publisher implements AutoCloseable {
    final Set<String> confirmed = ConcurrentHashMap.newKeySet();
    private final RabbitTemplate template;
    private final Thread thread = new Thread(this::work);
    private volatile boolean closed;
    private volatile Throwable failure;

    Publisher(RabbitTemplate template) {
        this.template = template;
    }

    void start() {
        thread.start();
    }

    private void work() {
        try {
            for (int n = 0; !closed; n += 20) {
                publish(n, n + 20);
            }
        } catch (Throwable why) {
            failure = why;
        }
    }

    private void publish(int from, int to) throws Exception {
        List<CorrelationData> sent = new ArrayList<>();
        for (int n = from; n < to; n++) {
            CorrelationData id = new CorrelationData("n" + n);
            try {
                template.convertAndSend("work", "job.live", id.getId(), id);
                sent.add(id);
            } catch (AmqpException why) {
                // The broker is away: not promised. No need to ask as fast as one can.
                LockSupport.parkNanos(50_000_000);
            }
        }
        for (CorrelationData one : sent) {
            try {
                if (one.getFuture().get(10, TimeUnit.SECONDS).isAck() && one.getReturned() == null) {
                    confirmed.add(one.getId());
                }
            } catch (TimeoutException why) {
                // Sent into a connection that was gone: not promised.
            }
        }
    }

    @Override
    public void close() throws Exception {
        closed = true;
        thread.join(60_000);
        if (failure != null || thread.isAlive()) {
            throw new AssertionError("the publisher did not end well", failure);
        }
    }
}
