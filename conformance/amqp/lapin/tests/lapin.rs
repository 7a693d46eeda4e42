//! What lapin is promised.

use std::time::Duration;

use conformance_lapin::{Broker, name};
use futures_lite::StreamExt;
use lapin::options::*;
use lapin::publisher_confirm::Confirmation;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};

/// Runs `work` against a broker of its own.
fn with_broker<F: Future<Output = ()>>(work: impl FnOnce(Broker) -> F) {
    async_global_executor::block_on(work(Broker::start()));
}

async fn connect(broker: &Broker) -> Connection {
    Connection::connect(&broker.url(), ConnectionProperties::default()).await.unwrap()
}

fn persistent() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2)
}

async fn publish(channel: &Channel, exchange: &str, key: &str, body: &[u8], props: BasicProperties) -> Confirmation {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    channel.basic_publish(exchange, key, options, body, props).await.unwrap().await.unwrap()
}

async fn queue(channel: &Channel, name: &str) {
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name, options, FieldTable::default()).await.unwrap();
}

async fn drain(channel: &Channel, queue: &str) -> Vec<String> {
    let mut bodies = Vec::new();
    while let Some(got) = channel.basic_get(queue, BasicGetOptions { no_ack: true }).await.unwrap() {
        bodies.push(String::from_utf8(got.delivery.data.clone()).unwrap());
    }
    bodies
}

/// The code with which a broken promise of ours ends a channel.
fn code(error: &lapin::Error) -> u16 {
    match error {
        lapin::Error::ProtocolError(error) => error.get_id(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn routes_by_topic_headers_and_bindings_between_exchanges() {
    with_broker(|broker| async move {
        let connection = connect(&broker).await;
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let (topic, headers, words, red) = (name("t"), name("h"), name("words"), name("red"));
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(&topic, ExchangeKind::Topic, options, FieldTable::default()).await.unwrap();
        channel.exchange_declare(&headers, ExchangeKind::Headers, options, FieldTable::default()).await.unwrap();
        queue(&channel, &words).await;
        queue(&channel, &red).await;
        let none = FieldTable::default;
        channel.queue_bind(&words, &topic, "a.*.c", QueueBindOptions::default(), none()).await.unwrap();
        channel.exchange_bind(&headers, &topic, "#", ExchangeBindOptions::default(), none()).await.unwrap();
        let mut arguments = FieldTable::default();
        arguments.insert("x-match".into(), AMQPValue::LongString("all".into()));
        arguments.insert("colour".into(), AMQPValue::LongString("red".into()));
        channel.queue_bind(&red, &headers, "", QueueBindOptions::default(), arguments).await.unwrap();
        for (key, colour) in [("a.b.c", "red"), ("a.b.b.c", "red"), ("a.x.c", "blue"), ("none", "blue")] {
            let mut fields = FieldTable::default();
            fields.insert("colour".into(), AMQPValue::LongString(LongString::from(colour)));
            let told = publish(&channel, &topic, key, key.as_bytes(), persistent().with_headers(fields)).await;
            let returned = matches!(told, Confirmation::Ack(Some(_)));
            assert_eq!(returned, key == "none", "A11: what nobody takes comes back");
        }
        assert_eq!(drain(&channel, &words).await, ["a.b.c", "a.x.c"]);
        assert_eq!(drain(&channel, &red).await, ["a.b.c", "a.b.b.c"]);
        connection.close(200, "").await.unwrap();
    });
}

#[test]
fn every_type_of_field_comes_back_as_sent() {
    with_broker(|broker| async move {
        let connection = connect(&broker).await;
        let channel = connection.create_channel().await.unwrap();
        let name = name("q");
        queue(&channel, &name).await;
        let mut fields = FieldTable::default();
        for (key, value) in [
            ("bool", AMQPValue::Boolean(true)),
            ("i8", AMQPValue::ShortShortInt(-5)),
            ("u8", AMQPValue::ShortShortUInt(250)),
            ("i16", AMQPValue::ShortInt(-300)),
            ("u16", AMQPValue::ShortUInt(65_000)),
            ("i32", AMQPValue::LongInt(-70_000)),
            ("u32", AMQPValue::LongUInt(4_000_000_000)),
            ("i64", AMQPValue::LongLongInt(-(1 << 40))),
            ("f32", AMQPValue::Float(1.5)),
            ("f64", AMQPValue::Double(2.5)),
            ("time", AMQPValue::Timestamp(1_700_000_000)),
            ("text", AMQPValue::LongString("é".into())),
            ("bytes", AMQPValue::ByteArray(vec![255, 0].into())),
            ("void", AMQPValue::Void),
            ("list", AMQPValue::FieldArray(vec![AMQPValue::LongInt(1), AMQPValue::Void].into())),
            ("table", AMQPValue::FieldTable(FieldTable::default())),
        ] {
            fields.insert(ShortString::from(key), value);
        }
        let props = persistent().with_headers(fields.clone()).with_message_id("m".into()).with_priority(5);
        publish(&channel, "", &name, b"x", props).await;
        let got = channel.basic_get(&name, BasicGetOptions { no_ack: true }).await.unwrap().unwrap();
        assert_eq!(got.delivery.properties.headers().as_ref(), Some(&fields));
        assert_eq!(got.delivery.properties.message_id().as_ref().map(ShortString::as_str), Some("m"));
        assert_eq!(*got.delivery.properties.priority(), Some(5));
        connection.close(200, "").await.unwrap();
    });
}

#[test]
fn a14_a_second_ack_closes_the_channel_and_gives_the_rest_back() {
    with_broker(|broker| async move {
        let connection = connect(&broker).await;
        let channel = connection.create_channel().await.unwrap();
        let name = name("q");
        queue(&channel, &name).await;
        for body in [b"1", b"2"] {
            publish(&channel, "", &name, body, persistent()).await;
        }
        let first = channel.basic_get(&name, BasicGetOptions::default()).await.unwrap().unwrap();
        channel.basic_get(&name, BasicGetOptions::default()).await.unwrap().unwrap();
        // What a later call on the channel answers depends on whether the client has heard of the end by then.
        let (tell, told) = std::sync::mpsc::channel();
        channel.on_error(move |error| drop(tell.send(error)));
        channel.basic_ack(first.delivery.delivery_tag, BasicAckOptions::default()).await.unwrap();
        channel.basic_ack(first.delivery.delivery_tag, BasicAckOptions::default()).await.unwrap();
        let error = told.recv_timeout(Duration::from_secs(30)).expect("the channel ends");
        assert_eq!(code(&error), 406);
        let again = connection.create_channel().await.unwrap();
        let got = again.basic_get(&name, BasicGetOptions { no_ack: true }).await.unwrap().unwrap();
        assert_eq!((got.delivery.data.as_slice(), got.delivery.redelivered), (&b"2"[..], true));
        connection.close(200, "").await.unwrap();
    });
}

#[test]
fn a17_a_consumer_ends_when_its_queue_goes() {
    with_broker(|broker| async move {
        let connection = connect(&broker).await;
        let (channel, other) = (connection.create_channel().await.unwrap(), connection.create_channel().await.unwrap());
        let name = name("q");
        queue(&channel, &name).await;
        let options = BasicConsumeOptions::default();
        let mut consumer = channel.basic_consume(&name, "tag", options, FieldTable::default()).await.unwrap();
        other.queue_delete(&name, QueueDeleteOptions::default()).await.unwrap();
        assert!(consumer.next().await.is_none(), "it is told, and ends");
        other.queue_delete(&name, QueueDeleteOptions::default()).await.unwrap();
        connection.close(200, "").await.unwrap();
    });
}

#[test]
fn a_transaction_is_all_or_nothing() {
    with_broker(|broker| async move {
        let connection = connect(&broker).await;
        let channel = connection.create_channel().await.unwrap();
        let name = name("q");
        queue(&channel, &name).await;
        channel.tx_select().await.unwrap();
        publish(&channel, "", &name, b"forgotten", persistent()).await;
        channel.tx_rollback().await.unwrap();
        publish(&channel, "", &name, b"kept", persistent()).await;
        channel.tx_commit().await.unwrap();
        let other = connection.create_channel().await.unwrap();
        assert_eq!(drain(&other, &name).await, ["kept"]);
        let error = channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap_err();
        assert_eq!(code(&error), 406);
        connection.close(200, "").await.unwrap();
    });
}

#[test]
fn a12_an_answer_comes_directly() {
    with_broker(|broker| async move {
        let connection = connect(&broker).await;
        let (client, worker) = (connection.create_channel().await.unwrap(), connection.create_channel().await.unwrap());
        let work = name("work");
        queue(&worker, &work).await;
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let none = FieldTable::default;
        let mut answers = client.basic_consume("amq.rabbitmq.reply-to", "answers", options, none()).await.unwrap();
        let mut questions = worker.basic_consume(&work, "questions", options, none()).await.unwrap();
        let props = BasicProperties::default().with_reply_to("amq.rabbitmq.reply-to".into());
        publish(&client, "", &work, b"what?", props).await;
        let question = questions.next().await.unwrap().unwrap();
        let to = question.properties.reply_to().clone().unwrap();
        assert!(to.as_str().starts_with("amq.rabbitmq.reply-to."));
        publish(&worker, "", to.as_str(), b"that", BasicProperties::default()).await;
        assert_eq!(answers.next().await.unwrap().unwrap().data, b"that");
        connection.close(200, "").await.unwrap();
    });
}

#[test]
fn what_is_confirmed_survives_a_kill() {
    with_broker(|mut broker| async move {
        if broker.is_peer() {
            return;
        }
        let connection = connect(&broker).await;
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        queue(&channel, "q").await;
        for n in 0..100 {
            publish(&channel, "", "q", n.to_string().as_bytes(), persistent()).await;
        }
        broker.kill();
        broker.run();
        let connection = connect(&broker).await;
        let channel = connection.create_channel().await.unwrap();
        let bodies = drain(&channel, "q").await;
        assert_eq!(bodies, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
        connection.close(200, "").await.unwrap();
    });
}
