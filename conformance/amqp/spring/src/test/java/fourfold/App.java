package fourfold;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.DirectExchange;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.annotation.EnableRabbit;
import org.springframework.amqp.rabbit.annotation.Exchange;
import org.springframework.amqp.rabbit.annotation.QueueBinding;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.retry.RejectAndDontRequeueRecoverer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** An application as people write them with Spring: what it declares, its listeners, and its template with confirms and returns. */
final class App implements AutoCloseable {
    private final AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();

    App(Broker broker) {
        context.getBeanFactory().registerSingleton("broker", broker);
        context.register(Wiring.class, Listeners.class);
        context.refresh();
    }

    RabbitTemplate template() {
        return context.getBean(RabbitTemplate.class);
    }

    RabbitAdmin admin() {
        return context.getBean(RabbitAdmin.class);
    }

    ConnectionFactory connections() {
        return context.getBean(ConnectionFactory.class);
    }

    Listeners listeners() {
        return context.getBean(Listeners.class);
    }

    @Override
    public void close() {
        context.close();
    }

    /** The beans. */
    @Configuration(proxyBeanMethods = false)
    @EnableRabbit
    static class Wiring {
        @Bean
        CachingConnectionFactory connections(Broker broker) {
            CachingConnectionFactory factory = new CachingConnectionFactory("127.0.0.1", broker.amqpPort());
            factory.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.CORRELATED);
            factory.setPublisherReturns(true);
            return factory;
        }

        @Bean
        RabbitAdmin admin(ConnectionFactory connections) {
            return new RabbitAdmin(connections);
        }

        @Bean
        RabbitTemplate template(ConnectionFactory connections) {
            RabbitTemplate template = new RabbitTemplate(connections);
            template.setMandatory(true);
            template.setReplyTimeout(30_000);
            return template;
        }

        @Bean
        SimpleRabbitListenerContainerFactory rabbitListenerContainerFactory(ConnectionFactory connections) {
            SimpleRabbitListenerContainerFactory factory = new SimpleRabbitListenerContainerFactory();
            factory.setConnectionFactory(connections);
            factory.setPrefetchCount(10);
            factory.setRecoveryInterval(200L);
            factory.setAdviceChain(RetryInterceptorBuilder.stateless().maxAttempts(3).backOffOptions(10, 2, 50)
                    .recoverer(new RejectAndDontRequeueRecoverer()).build());
            return factory;
        }

        @Bean
        Declarables declared() {
            TopicExchange work = new TopicExchange("work");
            DirectExchange dead = new DirectExchange("dead");
            Queue jobs = QueueBuilder.durable("jobs").deadLetterExchange("dead").deadLetterRoutingKey("jobs").build();
            Queue failed = QueueBuilder.durable("failed").quorum().build();
            Binding in = BindingBuilder.bind(jobs).to(work).with("job.#");
            Binding out = BindingBuilder.bind(failed).to(dead).with("jobs");
            return new Declarables(List.of(work, dead, jobs, failed, new Queue("questions"), in, out));
        }
    }

    /** What takes the messages. */
    static class Listeners {
        final Set<String> done = ConcurrentHashMap.newKeySet();
        final Set<String> news = ConcurrentHashMap.newKeySet();
        final Map<String, AtomicInteger> attempts = new ConcurrentHashMap<>();

        @RabbitListener(queues = "jobs", concurrency = "2")
        void job(String job) {
            attempts.computeIfAbsent(job, key -> new AtomicInteger()).incrementAndGet();
            if (job.startsWith("bad")) {
                throw new IllegalStateException("this job cannot be done");
            }
            done.add(job);
        }

        @RabbitListener(queues = "questions", concurrency = "2")
        String answer(String question) {
            return "re: " + question;
        }

        /** From a queue of its own, named by the client, which goes with its connection. */
        @RabbitListener(bindings = @QueueBinding(value = @org.springframework.amqp.rabbit.annotation.Queue,
                exchange = @Exchange(value = "news", type = "fanout")))
        void news(String news) {
            this.news.add(news);
        }
    }
}
