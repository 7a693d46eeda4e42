//! The header `x-delay` of messages to an exchange that delays: how long, and the publish that waits. What is said of
//! the delayed-message plugin here was read in its source.

use broker::routing::{PublishRequest, Published};
use broker::{Broker, BrokerError};
use model::{HeaderValue, Now, Wall};

use crate::errors::Refusal;
use crate::wire::props::Props;
use crate::wire::table;

/// Milliseconds. Receivers see it negated, so that a second exchange of the kind does not delay the message again.
pub const HEADER: &str = "x-delay";

/// The longest delay, in milliseconds: ten years, as for a time to live.
const DELAY_MAX: i64 = 315_360_000_000;

/// Further routes that are kept with a delayed message, and the length of each.
const ROUTES_MAX: usize = 255;

/// How long the message has to wait: nothing unless its exchange delays and its header says a number above 0.
///
/// # Errors
/// 406 for a delay above ten years or a text that is no number, and for routes that cannot be kept so long.
pub fn asked(
    broker: &Broker,
    (tenant, exchange): (&str, &str),
    routes: &[String],
    props: &Props<'_>,
) -> Result<Option<i64>, Refusal> {
    let Some(headers) = props.headers else { return Ok(None) };
    if !broker.delays(tenant, exchange) {
        return Ok(None);
    }
    let headers = table::read(headers)?;
    let Some(header) = headers.iter().find(|header| header.name == HEADER) else { return Ok(None) };
    let Some(ms) = milliseconds(&header.value)?.filter(|ms| *ms > 0) else { return Ok(None) };
    if ms > DELAY_MAX {
        return Err(Refusal::precondition(format!("invalid x-delay '{ms}': the longest delay is {DELAY_MAX} ms")));
    }
    if routes.len() > ROUTES_MAX || routes.iter().any(|route| route.len() > ROUTES_MAX) {
        let text = format!("a delayed message takes at most {ROUTES_MAX} CC and BCC routes of {ROUTES_MAX} bytes");
        return Err(Refusal::precondition(text));
    }
    Ok(Some(ms))
}

/// As the plugin: whole numbers, texts that are one, floats cut; other types are no delay.
fn milliseconds(value: &HeaderValue) -> Result<Option<i64>, Refusal> {
    match value {
        HeaderValue::Int(ms) => Ok(Some(*ms)),
        HeaderValue::Float(ms) => Ok(Some(*ms as i64)),
        HeaderValue::Text(text) => match text.parse() {
            Ok(ms) => Ok(Some(ms)),
            Err(_) => Err(Refusal::precondition(format!("invalid x-delay '{text}': give milliseconds as a number"))),
        },
        _ => Ok(None),
    }
}

/// Stores a message that is routed in `ms`. No queue has it yet, and no one can say that none will: it counts as routed
/// and is not returned.
///
/// # Errors
/// As of a publish, for what can be said now.
pub fn publish(
    broker: &mut Broker,
    request: &PublishRequest<'_>,
    (ms, now): (i64, Now),
) -> Result<Published, BrokerError> {
    broker.can_publish(request.tenant, request.exchange)?;
    let delayed = broker.delay(request, Wall(now.wall.0.saturating_add(ms)), now)?;
    Ok(Published { queues: 1, stored: false, refused: 0, lsn: delayed.lsn })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_a_number_or_a_text_that_is_one() {
        for (value, ms) in [
            (HeaderValue::Int(5), Some(5)),
            (HeaderValue::Int(-5), Some(-5)),
            (HeaderValue::Float(1.9), Some(1)),
            (HeaderValue::Text("70".into()), Some(70)),
            (HeaderValue::Bool(true), None),
            (HeaderValue::Null, None),
        ] {
            assert_eq!(milliseconds(&value), Ok(ms), "{value:?}");
        }
        assert!(milliseconds(&HeaderValue::Text("soon".into())).is_err());
    }
}
