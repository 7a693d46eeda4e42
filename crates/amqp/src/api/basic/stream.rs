//! The arguments of basic.consume on a stream: where to begin, which partition, which messages. Texts of refusals are
//! those that the real server gave; where it answers 541 to a bad value, the value is refused by its name.

use broker::queue::{ReadFilter, ReadFrom, ReadSpec};
use model::{Header, HeaderValue, Wall};

use crate::api::queue::of_stream;
use crate::conn::Call;
use crate::errors::{Refusal, VHOST};
use crate::wire::table::type_name;
use model::interval_ms;

/// Those that only streams take.
pub const ARGUMENTS: [&str; 4] =
    ["x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered", "x-stream-partition"];

/// The header by which publishers mark messages for filters.
const FILTER_HEADER: &str = "x-stream-filter-value";

/// The place at which a consumer begins.
///
/// # Errors
/// 406 without a prefetch of its own and for a bad argument, 540 without acknowledgements.
pub fn place(call: &Call<'_, '_>, queue: &str, no_ack: bool, arguments: &[Header]) -> Result<ReadSpec, Refusal> {
    if call.ch.prefetch == 0 {
        let text = format!("consumer prefetch count is not set for 'queue '{queue}' in vhost '{VHOST}''");
        return Err(Refusal::precondition(text));
    }
    if no_ack {
        return Err(of_stream(queue, "automatic acknowledgement"));
    }
    spec(queue, arguments, call.cx.now.wall)
}

fn spec(queue: &str, arguments: &[Header], now: Wall) -> Result<ReadSpec, Refusal> {
    let mut spec = ReadSpec::default();
    let (mut values, mut unmarked) = (Vec::new(), false);
    for Header { name, value } in arguments {
        let invalid = |why: String| {
            Refusal::precondition(format!("invalid arg '{name}' for queue '{queue}' in vhost '{VHOST}': {why}"))
        };
        let unacceptable = || invalid(format!("{{unacceptable_type,{}}}", type_name(value)));
        match (name.as_str(), value) {
            ("x-stream-offset", value) => spec.from = from(value, now).map_err(invalid)?,
            ("x-stream-partition", HeaderValue::Int(number)) => {
                let partition = u32::try_from(*number).map_err(|_| invalid(format!("{{value_negative,{number}}}")))?;
                spec.partition = Some(partition);
            }
            ("x-stream-partition", other) => {
                return Err(invalid(format!("\"expected integer, got {}\"", type_name(other))));
            }
            ("x-stream-filter", HeaderValue::Text(text)) => values.push(text.clone()),
            ("x-stream-filter", HeaderValue::List(list)) => {
                for value in list {
                    let HeaderValue::Text(text) = value else { return Err(unacceptable()) };
                    values.push(text.clone());
                }
            }
            ("x-stream-match-unfiltered", HeaderValue::Bool(also)) => unmarked = *also,
            ("x-stream-filter" | "x-stream-match-unfiltered", _) => return Err(unacceptable()),
            _ => {}
        }
    }
    if !values.is_empty() {
        spec.filter = Some(ReadFilter { header: FILTER_HEADER.to_owned(), values, unmarked });
    }
    Ok(spec)
}

fn from(value: &HeaderValue, now: Wall) -> Result<ReadFrom, String> {
    match value {
        HeaderValue::Int(offset) => Ok(ReadFrom::Offset(u64::try_from(*offset).unwrap_or(0))),
        HeaderValue::Time(time) => Ok(ReadFrom::Time(*time)),
        HeaderValue::Text(text) => match text.as_str() {
            "first" => Ok(ReadFrom::First),
            "last" => Ok(ReadFrom::Last),
            "next" => Ok(ReadFrom::Next),
            other => match interval_ms(other).filter(|ms| *ms > 0) {
                Some(ms) => {
                    Ok(ReadFrom::Time(Wall(now.0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)).max(0))))
                }
                None => Err(format!("{{invalid_stream_offset_arg,{{longstr,<<\"{other}\">>}}}}")),
            },
        },
        other => Err(format!("{{unacceptable_type,{}}}", type_name(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[(&str, HeaderValue)]) -> Result<ReadSpec, String> {
        let header = |(name, value): &(&str, HeaderValue)| Header { name: (*name).to_owned(), value: value.clone() };
        let headers = arguments.iter().map(header).collect::<Vec<_>>();
        spec("st", &headers, Wall(10_000_000)).map_err(|refusal| refusal.told("/"))
    }

    fn text(text: &str) -> HeaderValue {
        HeaderValue::Text(text.to_owned())
    }

    #[test]
    fn a_place_is_a_word_a_number_a_time_or_an_interval() {
        for (value, from) in [
            (text("first"), ReadFrom::First),
            (text("last"), ReadFrom::Last),
            (text("next"), ReadFrom::Next),
            (HeaderValue::Int(7), ReadFrom::Offset(7)),
            (HeaderValue::Int(-1), ReadFrom::Offset(0)),
            (HeaderValue::Time(Wall(5)), ReadFrom::Time(Wall(5))),
            (text("1h"), ReadFrom::Time(Wall(10_000_000 - 3_600_000))),
            (text("1Y"), ReadFrom::Time(Wall(0))),
        ] {
            assert_eq!(asked(&[("x-stream-offset", value.clone())]).unwrap().from, from, "{value:?}");
        }
        assert_eq!(asked(&[]).unwrap(), ReadSpec::default());
    }

    #[test]
    fn what_is_no_place_is_refused_in_rabbitmqs_words() {
        let said = asked(&[("x-stream-offset", text("1H"))]).unwrap_err();
        let why = "{invalid_stream_offset_arg,{longstr,<<\"1H\">>}}";
        assert_eq!(said, format!("invalid arg 'x-stream-offset' for queue 'st' in vhost '/': {why}"));
        for (name, value) in [
            ("x-stream-offset", text("0s")),
            ("x-stream-offset", text("zz")),
            ("x-stream-offset", text("")),
            ("x-stream-offset", HeaderValue::Bool(true)),
            ("x-stream-offset", HeaderValue::Null),
            ("x-stream-filter", HeaderValue::Int(1)),
            ("x-stream-filter", HeaderValue::List(vec![HeaderValue::Int(1)])),
            ("x-stream-match-unfiltered", text("true")),
            ("x-stream-partition", HeaderValue::Int(-1)),
            ("x-stream-partition", text("1")),
        ] {
            assert!(asked(&[(name, value.clone())]).unwrap_err().contains(name), "{name} {value:?}");
        }
    }

    #[test]
    fn a_filter_is_one_text_or_several() {
        let several = HeaderValue::List(vec![text("a"), text("b")]);
        let spec = asked(&[("x-stream-filter", several), ("x-stream-match-unfiltered", HeaderValue::Bool(true))]);
        let filter = spec.unwrap().filter.unwrap();
        assert_eq!((filter.values.len(), filter.unmarked), (2, true));
        let one = asked(&[("x-stream-filter", text("a"))]).unwrap().filter.unwrap();
        assert_eq!((one.values, one.unmarked), (vec!["a".to_owned()], false));
    }
}
