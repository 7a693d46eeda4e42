//! The header `x-delay` of messages that come to an exchange that delays: how long they wait. What is said of the
//! delayed-message plugin here was read in its source.

use broker::Broker;
use model::HeaderValue;

use super::publish::headers_of;
use crate::conn::Done;
use crate::errors::Refusal;
use crate::unit::{Unit, UnitBuilder};
use crate::wire::props::{self, Props};
use crate::wire::table;

/// Milliseconds. Receivers see it negated, so that a second exchange of the kind does not delay the message again.
const HEADER: &str = "x-delay";

/// The longest delay, in milliseconds: ten years, as for a time to live.
const DELAY_MAX: i64 = 315_360_000_000;

/// Checks what a message to an exchange asks for, if that exchange delays.
///
/// # Errors
/// 406 for a delay above ten years or a text that is no number.
pub fn check(broker: &Broker, (tenant, exchange): (&str, &str), props: &Props<'_>) -> Done {
    let Some(headers) = props.headers else { return Ok(()) };
    if !broker.delays(tenant, exchange) {
        return Ok(());
    }
    let headers = table::read(headers)?;
    let Some(header) = headers.iter().find(|header| header.name == HEADER) else { return Ok(()) };
    match milliseconds(&header.value)? {
        Some(ms) if ms > DELAY_MAX => {
            Err(Refusal::precondition(format!("invalid x-delay '{ms}': the longest delay is {DELAY_MAX} ms")))
        }
        _ => Ok(()),
    }
}

/// How long the message in `unit` asks to wait, if its header says a number above 0; then `out` gets the unit as its
/// receivers see it. One that came another way than to the delaying exchange itself waits ten years at most, and a text
/// that is no number asks for nothing: there is nobody to refuse it to.
#[must_use]
pub fn taken(unit: &[u8], out: &mut Vec<u8>) -> Option<i64> {
    let (unit, _) = Unit::first(unit).ok()?;
    let headers = headers_of(&unit);
    let header = headers.iter().find(|header| header.name == HEADER)?;
    let ms = milliseconds(&header.value).ok()??;
    if ms <= 0 {
        return None;
    }
    let mut builder = UnitBuilder::default();
    builder.begin(unit.exchange, unit.key);
    builder.props(&props::with_number(unit.props, HEADER, -ms).ok()?);
    builder.body(unit.body);
    if unit.deaths > 0 {
        builder.deaths(unit.deaths);
    }
    builder.finish(unit.persistent, unit.published);
    out.extend_from_slice(builder.bytes());
    Some(ms.min(DELAY_MAX))
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
