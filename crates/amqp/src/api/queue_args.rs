//! Arguments of queue.declare: what each means to the core, which a queue type does not take, in whose words it is
//! refused. What RabbitMQ ignores (any name it does not know) is ignored here too.

use broker::queue::{DeadLetterTo, NO_DELIVERY_LIMIT, Overflow, QueueKind, QueueOptions};
use model::{Header, HeaderValue, Name, interval_ms};

use crate::conn::name;
use crate::errors::{Refusal, VHOST};
use crate::wire::table::{Types, type_in};

/// What the arguments of a queue ask for.
#[derive(Debug, Default)]
pub struct QueueArguments {
    /// Share this topic.
    pub topic: Option<Name>,
    /// What they mean.
    pub options: QueueOptions,
}

const CLASSIC: u8 = 1;
const QUORUM: u8 = 2;
const STREAM: u8 = 4;

/// Which queue types take an argument. One that is not here is ignored.
const TAKEN: [(&str, u8); 22] = [
    ("x-queue-type", CLASSIC | QUORUM | STREAM),
    ("x-topic", CLASSIC | QUORUM | STREAM),
    ("x-message-ttl", CLASSIC | QUORUM),
    ("x-expires", CLASSIC | QUORUM),
    ("x-max-length", CLASSIC | QUORUM),
    ("x-max-length-bytes", CLASSIC | QUORUM | STREAM),
    ("x-overflow", CLASSIC | QUORUM),
    ("x-dead-letter-exchange", CLASSIC | QUORUM),
    ("x-dead-letter-routing-key", CLASSIC | QUORUM),
    ("x-dead-letter-strategy", QUORUM),
    ("x-max-priority", CLASSIC),
    ("x-single-active-consumer", CLASSIC | QUORUM),
    ("x-queue-mode", CLASSIC),
    ("x-queue-version", CLASSIC),
    ("x-consumer-timeout", CLASSIC | QUORUM),
    ("x-delivery-limit", QUORUM),
    ("x-quorum-initial-group-size", QUORUM),
    ("x-initial-cluster-size", STREAM),
    ("x-queue-leader-locator", QUORUM | STREAM),
    ("x-max-age", STREAM),
    ("x-stream-max-segment-size-bytes", STREAM),
    ("x-stream-filter-size-bytes", STREAM),
];

/// The longest time that RabbitMQ takes, in milliseconds: ten years.
const TIME_MS_MAX: i64 = 315_360_000_000;

/// The largest segment of a stream that RabbitMQ takes.
const SEGMENT_BYTES_MAX: u64 = 3_000_000_000;

/// One argument of one queue.
struct Argument<'a> {
    name: &'a str,
    value: &'a HeaderValue,
    /// The word for the type of its value.
    kind: &'static str,
    queue: &'a str,
}

impl<'a> Argument<'a> {
    fn of(header: &'a Header, types: &Types<'_>, queue: &'a str) -> Argument<'a> {
        Argument { name: &header.name, value: &header.value, kind: type_in(types, header), queue }
    }

    fn invalid(&self, why: impl std::fmt::Display) -> Refusal {
        let Argument { name, queue, .. } = self;
        Refusal::precondition(format!("invalid arg '{name}' for queue '{queue}' in vhost '{VHOST}': {why}"))
    }

    fn unacceptable(&self) -> Refusal {
        self.invalid(format_args!("{{unacceptable_type,{}}}", self.kind))
    }

    fn text(&self) -> Result<&'a str, Refusal> {
        match self.value {
            HeaderValue::Text(text) => Ok(text),
            _ => Err(self.unacceptable()),
        }
    }

    fn int(&self) -> Result<i64, Refusal> {
        match self.value {
            HeaderValue::Int(number) => Ok(*number),
            _ => Err(self.invalid(format_args!("\"expected integer, got {}\"", self.kind))),
        }
    }

    fn not_negative(&self) -> Result<u64, Refusal> {
        let number = self.int()?;
        u64::try_from(number).map_err(|_| self.invalid(format_args!("{{value_negative,{number}}}")))
    }

    fn positive(&self) -> Result<u64, Refusal> {
        match self.not_negative()? {
            0 => Err(self.invalid("{value_zero,0}")),
            number => Ok(number),
        }
    }

    fn time(&self, least_one: bool) -> Result<u64, Refusal> {
        let time = if least_one { self.positive()? } else { self.not_negative()? };
        if time > TIME_MS_MAX.unsigned_abs() {
            return Err(self.invalid(format_args!("{{value_too_large,{time}}}")));
        }
        Ok(time)
    }

    fn priority(&self) -> Result<u8, Refusal> {
        let number = self.not_negative()?;
        u8::try_from(number).map_err(|_| self.invalid(format_args!("{{max_value_exceeded,{number}}}")))
    }

    fn flag(&self) -> Result<bool, Refusal> {
        match self.value {
            HeaderValue::Bool(value) => Ok(*value),
            _ => Err(self.unacceptable()),
        }
    }

    /// A number and a unit: years, months, days, hours, minutes, seconds.
    fn age(&self) -> Result<u64, Refusal> {
        let age = interval_ms(self.text()?).filter(|ms| *ms > 0);
        age.ok_or_else(|| self.invalid("invalid_max_age"))
    }

    fn segment_bytes(&self) -> Result<u64, Refusal> {
        match self.not_negative()? {
            bytes if bytes > SEGMENT_BYTES_MAX => {
                Err(Refusal::precondition(format!("Exceeded max value for {}", self.name)))
            }
            bytes => Ok(bytes),
        }
    }

    fn overflow(&self) -> Result<Overflow, Refusal> {
        match self.text()? {
            "drop-head" => Ok(Overflow::DropHead),
            "reject-publish" => Ok(Overflow::Reject),
            "reject-publish-dlx" => Ok(Overflow::RejectToDeadLetters),
            _ => Err(self.invalid("invalid_overflow")),
        }
    }

    fn kind(&self) -> Result<QueueKind, Refusal> {
        match self.text()? {
            "classic" => Ok(QueueKind::Plain),
            "quorum" => Ok(QueueKind::Safe),
            "stream" => Ok(QueueKind::Stream),
            other => Err(self.invalid(format_args!("\"unsupported queue type '{other}'\""))),
        }
    }

    /// Dead letters of RabbitMQ's own choice of words.
    fn exchange(&self) -> Result<&'a str, Refusal> {
        match self.value {
            HeaderValue::Text(text) => Ok(text),
            _ => Err(Refusal::precondition(format!(
                "invalid type '{}' for arg '{}' in queue '{}' in vhost '{VHOST}'",
                self.kind, self.name, self.queue
            ))),
        }
    }
}

/// Checks the arguments of a queue; `types` are the words for their types, where the wire told them.
///
/// # Errors
/// 406 that names the argument.
pub fn queue_arguments(headers: &[Header], types: &Types<'_>, queue: &str) -> Result<QueueArguments, Refusal> {
    let argument = |header| Argument::of(header, types, queue);
    let all = || headers.iter().map(argument);
    let mut asked = QueueArguments::default();
    if let Some(kind) = all().find(|argument| argument.name == "x-queue-type") {
        asked.options.kind = kind.kind()?;
    }
    let mut letters = Letters::default();
    for argument in all() {
        is_taken(&argument, asked.options.kind)?;
        take(&argument, &mut asked, &mut letters)?;
    }
    asked.options.dead_letters = letters.checked(queue)?;
    if asked.topic.is_some() {
        fits_topic(&asked.options, queue)?;
    }
    Ok(asked)
}

fn is_taken(argument: &Argument<'_>, kind: QueueKind) -> Result<(), Refusal> {
    let bit = match kind {
        QueueKind::Plain => CLASSIC,
        QueueKind::Safe => QUORUM,
        QueueKind::Stream => STREAM,
    };
    let types = TAKEN.iter().find(|(name, _)| *name == argument.name).map(|(_, types)| *types);
    if types.is_none_or(|types| types & bit != 0) {
        return Ok(());
    }
    Err(Refusal::precondition(format!(
        "invalid arg '{}' for queue '{}' in vhost '{VHOST}' of queue type {}",
        argument.name,
        argument.queue,
        type_of(kind)
    )))
}

/// A queue type by the name that RabbitMQ's refusals use.
#[must_use]
pub fn type_of(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::Plain => "rabbit_classic_queue",
        QueueKind::Safe => "rabbit_quorum_queue",
        QueueKind::Stream => "rabbit_stream_queue",
    }
}

/// Arguments about dead letters, which only mean something together.
#[derive(Default)]
struct Letters {
    exchange: Option<String>,
    key: Option<String>,
    at_least_once: bool,
}

impl Letters {
    fn checked(self, queue: &str) -> Result<Option<DeadLetterTo>, Refusal> {
        match (self.exchange, self.key) {
            (None, Some(_)) => Err(Refusal::precondition(format!(
                "invalid arg 'x-dead-letter-routing-key' for queue '{queue}' in vhost '{VHOST}': \
                 routing_key_but_no_dlx_defined"
            ))),
            (None, None) => Ok(None),
            (Some(exchange), key) => Ok(Some(DeadLetterTo { exchange, key, at_least_once: self.at_least_once })),
        }
    }
}

fn take(argument: &Argument<'_>, asked: &mut QueueArguments, letters: &mut Letters) -> Result<(), Refusal> {
    let options = &mut asked.options;
    match argument.name {
        "x-topic" => asked.topic = Some(name(argument.text()?)?),
        "x-message-ttl" => options.message_ttl_ms = Some(argument.time(false)?),
        "x-expires" => options.expires_ms = Some(argument.time(true)?),
        "x-max-length" => options.length_max = Some(argument.not_negative()?),
        "x-max-length-bytes" => options.bytes_max = Some(argument.not_negative()?),
        "x-overflow" => options.overflow = Some(argument.overflow()?),
        "x-dead-letter-exchange" => letters.exchange = Some(argument.exchange()?.to_owned()),
        "x-dead-letter-routing-key" => letters.key = Some(argument.text()?.to_owned()),
        "x-dead-letter-strategy" => {
            letters.at_least_once = match argument.text()? {
                "at-most-once" => false,
                "at-least-once" => true,
                _ => return Err(argument.invalid("invalid_dlx_strategy")),
            }
        }
        "x-max-priority" => options.priority_max = Some(argument.priority()?),
        "x-single-active-consumer" => options.single_active = argument.flag()?,
        // No effect since 3.12, but many clients still send it.
        "x-queue-mode" => match argument.text()? {
            "default" | "lazy" => {}
            other => return Err(argument.invalid(format_args!("\"unsupported queue mode '{other}'\""))),
        },
        "x-queue-version" => drop(argument.not_negative()?),
        "x-consumer-timeout" => options.settle_ms_max = Some(argument.not_negative()?).filter(|ms| *ms > 0),
        "x-delivery-limit" => {
            options.delivery_limit = Some(u32::try_from(argument.int()?).unwrap_or(NO_DELIVERY_LIMIT));
        }
        // There is one node: its group has one member, and that one leads.
        "x-quorum-initial-group-size" | "x-initial-cluster-size" => drop(argument.positive()?),
        "x-queue-leader-locator" => match argument.text()? {
            "client-local" | "balanced" => {}
            _ => return Err(argument.invalid("invalid_queue_locator_arg")),
        },
        "x-max-age" => options.age_ms_max = Some(argument.age()?),
        "x-stream-max-segment-size-bytes" => options.segment_bytes_max = Some(argument.segment_bytes()?),
        // What a reader's filter lets through is looked at message by message: there is no summary to size.
        "x-stream-filter-size-bytes" => drop(argument.not_negative()?),
        _ => {}
    }
    Ok(())
}

/// A queue over a topic shares its log: what would change that log is refused.
fn fits_topic(options: &QueueOptions, queue: &str) -> Result<(), Refusal> {
    let refused = [
        ("x-message-ttl", options.message_ttl_ms.is_some()),
        ("x-max-length", options.length_max.is_some()),
        ("x-max-length-bytes", options.bytes_max.is_some()),
        ("x-max-priority", options.priority_max.is_some()),
        ("x-max-age", options.age_ms_max.is_some()),
        ("x-stream-max-segment-size-bytes", options.segment_bytes_max.is_some()),
    ];
    match refused.iter().find(|(_, is_asked)| *is_asked) {
        None => Ok(()),
        Some((argument, _)) => Err(Refusal::precondition(format!(
            "invalid arg '{argument}' for queue '{queue}' in vhost '{VHOST}': a queue over a topic (x-topic) has none; \
             set the topic's retention instead"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[(&str, HeaderValue)]) -> Result<QueueArguments, String> {
        let header = |(name, value): &(&str, HeaderValue)| Header { name: (*name).to_owned(), value: value.clone() };
        let headers = arguments.iter().map(header).collect::<Vec<_>>();
        queue_arguments(&headers, &Types::new(), "q").map_err(|refusal| refusal.told("/"))
    }

    fn text(text: &str) -> HeaderValue {
        HeaderValue::Text(text.to_owned())
    }

    /// As answered by the real server.
    #[test]
    fn bad_values_are_refused_in_rabbitmqs_words() {
        let int = HeaderValue::Int;
        let zz = || text("zz");
        for (name, value, why) in [
            ("x-message-ttl", int(-1), "{value_negative,-1}"),
            ("x-message-ttl", zz(), "\"expected integer, got longstr\""),
            ("x-message-ttl", HeaderValue::Bool(true), "\"expected integer, got bool\""),
            ("x-message-ttl", int(315_360_000_001), "{value_too_large,315360000001}"),
            ("x-expires", int(0), "{value_zero,0}"),
            ("x-max-length", int(-1), "{value_negative,-1}"),
            ("x-consumer-timeout", int(-1), "{value_negative,-1}"),
            ("x-consumer-timeout", zz(), "\"expected integer, got longstr\""),
            ("x-max-length-bytes", zz(), "\"expected integer, got longstr\""),
            ("x-max-priority", int(256), "{max_value_exceeded,256}"),
            ("x-overflow", zz(), "invalid_overflow"),
            ("x-overflow", int(1), "{unacceptable_type,long}"),
            ("x-dead-letter-routing-key", zz(), "routing_key_but_no_dlx_defined"),
            ("x-queue-type", zz(), "\"unsupported queue type 'zz'\""),
            ("x-queue-type", int(1), "{unacceptable_type,long}"),
            ("x-queue-mode", zz(), "\"unsupported queue mode 'zz'\""),
            ("x-single-active-consumer", zz(), "{unacceptable_type,longstr}"),
        ] {
            let said = asked(&[(name, value)]).unwrap_err();
            assert_eq!(said, format!("invalid arg '{name}' for queue 'q' in vhost '/': {why}"));
        }
        let said = asked(&[("x-dead-letter-exchange", int(1))]).unwrap_err();
        assert_eq!(said, "invalid type 'long' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'");
    }

    #[test]
    fn what_a_queue_type_does_not_take_is_refused_by_its_name() {
        for (kind, name, value) in [
            ("classic", "x-delivery-limit", HeaderValue::Int(3)),
            ("classic", "x-max-age", text("1h")),
            ("classic", "x-dead-letter-strategy", text("at-least-once")),
            ("quorum", "x-max-priority", HeaderValue::Int(5)),
            ("quorum", "x-queue-mode", text("lazy")),
            ("stream", "x-message-ttl", HeaderValue::Int(5)),
            ("stream", "x-max-length", HeaderValue::Int(5)),
            ("stream", "x-consumer-timeout", HeaderValue::Int(5)),
        ] {
            let said = asked(&[(name, value), ("x-queue-type", text(kind))]).unwrap_err();
            let expected = format!("invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_{kind}_queue");
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn arguments_mean_what_they_say() {
        let quorum = asked(&[("x-queue-type", text("quorum"))]).unwrap().options;
        assert_eq!((quorum.kind, quorum.delivery_limit), (QueueKind::Safe, None));
        let without = asked(&[("x-queue-type", text("quorum")), ("x-delivery-limit", HeaderValue::Int(-1))]);
        assert_eq!(without.unwrap().options.delivery_limit, Some(NO_DELIVERY_LIMIT));
        let letters = asked(&[("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("k"))]);
        let to = DeadLetterTo { exchange: String::new(), key: Some("k".into()), at_least_once: false };
        assert_eq!(letters.unwrap().options.dead_letters, Some(to));
        let stream = asked(&[("x-queue-type", text("stream")), ("x-max-age", text("7D"))]).unwrap().options;
        assert_eq!(stream.age_ms_max, Some(7 * 86_400_000));
        assert!(asked(&[("x-topic", text("t")), ("x-message-ttl", HeaderValue::Int(1))]).is_err());
        assert_eq!(asked(&[("x-topic", text("t"))]).unwrap().topic.as_deref(), Some("t"));
    }
}
