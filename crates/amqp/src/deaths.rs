//! Deaths as RabbitMQ's clients know them: the header `x-death`, an array of tables, the latest death first, one for
//! each queue and reason; and `x-first-death-…`, `x-last-death-…`. All other headers keep their bytes.
//!
//! The broker counts on what a client sends along in `x-death`, as RabbitMQ 3 did, but decides on cycles only by deaths
//! since the message was published: the unit says how many entries, from the front, those are.

use model::{Address, ByteReader, DeadLetters, Death, FormatError, Header, HeaderValue, Reason, Wall};

use crate::api::basic::publish::headers_of;
use crate::format::AmqpFormat;
use crate::unit::{Unit, UnitBuilder};
use crate::wire::table::{self, put_sized};
use crate::wire::text::{put_long, put_short, short};
use crate::wire::{WireError, props};

/// The header.
const DEATHS: &str = "x-death";
const CC: &str = "CC";

/// Flags of properties that a dead letter changes: headers, expiration.
const HEADERS: u16 = 1 << 13;
const EXPIRATION: u16 = 1 << 8;

const MALFORMED: FormatError = FormatError::Malformed("headers of an AMQP unit");

impl DeadLetters for AmqpFormat {
    fn address<'u>(&self, unit: &'u [u8]) -> Result<Address<'u>, FormatError> {
        let (unit, _) = Unit::first(unit)?;
        let text = |key| if let HeaderValue::Text(key) = key { Some(key) } else { None };
        let more_keys = Headers::of(&unit)?.copies.into_iter().filter_map(text).collect();
        Ok(Address { key: unit.key, more_keys, headers: headers_of(&unit) })
    }

    fn deaths(&self, unit: &[u8], visit: &mut dyn FnMut(&str, Reason)) -> Result<(), FormatError> {
        let (unit, _) = Unit::first(unit)?;
        let headers = Headers::of(&unit)?;
        for death in headers.deaths.iter().take(unit.deaths.into()) {
            if let (Some(queue), Some(reason)) = (death.text("queue"), death.text("reason").and_then(Reason::of)) {
                visit(queue, reason);
            }
        }
        Ok(())
    }

    fn bury(&self, unit: &[u8], death: &Death<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let (unit, _) = Unit::first(unit)?;
        let props = unit.properties()?;
        let headers = Headers::of(&unit)?;
        let (deaths, own) = headers.with(&unit, death, props.expiration);
        let mut table = Vec::new();
        put_sized(&mut table, |out| headers.put(&deaths, &unit, death, out));
        let mut builder = UnitBuilder::default();
        builder.begin(death.exchange, death.key.unwrap_or(unit.key));
        builder.props(&replaced(&unit, &table)?);
        builder.body(unit.body);
        builder.deaths(own);
        builder.finish(unit.persistent, death.at);
        out.extend_from_slice(builder.bytes());
        Ok(())
    }

    fn origin(&self, unit: &[u8]) -> Result<Option<String>, FormatError> {
        let (unit, _) = Unit::first(unit)?;
        Ok(Headers::of(&unit)?.deaths.first().and_then(|death| death.text("queue")).map(str::to_owned))
    }

    fn revive(&self, unit: &[u8], at: Wall, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let (unit, _) = Unit::first(unit)?;
        let headers = Headers::of(&unit)?;
        // A client may have written anything there: what is no short string is no name.
        let is_name = |(exchange, key): &(&str, &str)| exchange.len() <= 255 && key.len() <= 255;
        let (exchange, key) = headers.before().filter(is_name).unwrap_or((unit.exchange, unit.key));
        let mut builder = UnitBuilder::default();
        builder.begin(exchange, key);
        builder.props(unit.props);
        builder.body(unit.body);
        builder.finish(unit.persistent, at);
        out.extend_from_slice(builder.bytes());
        Ok(())
    }
}

/// Where the latest death says that the message was, before it died.
impl Headers<'_> {
    fn before(&self) -> Option<(&str, &str)> {
        let latest = self.deaths.first()?;
        let key = match latest.get("routing-keys") {
            Some(HeaderValue::List(keys)) => keys.first(),
            _ => None,
        };
        match key {
            Some(HeaderValue::Text(key)) => Some((latest.text("exchange")?, key)),
            _ => None,
        }
    }
}

/// One entry of `x-death`.
#[derive(Clone)]
struct Entry(Vec<Header>);

impl Entry {
    fn get(&self, name: &str) -> Option<&HeaderValue> {
        self.0.iter().find(|header| header.name == name).map(|header| &header.value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(HeaderValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn is(&self, death: &Death<'_>) -> bool {
        self.text("queue") == Some(death.queue) && self.text("reason") == Some(death.reason.name())
    }

    /// One more death in the same queue for the same reason: only the count grows, the time stays the first.
    fn again(mut self) -> Entry {
        match self.0.iter_mut().find(|header| header.name == "count") {
            Some(Header { value: HeaderValue::Int(count), .. }) => *count = count.saturating_add(1),
            Some(header) => header.value = HeaderValue::Int(1),
            None => self.0.insert(0, header("count", HeaderValue::Int(1))),
        }
        self
    }
}

/// The headers of a unit, taken apart as far as deaths need it.
struct Headers<'u> {
    /// All but `x-death`: name and the bytes of the whole field.
    others: Vec<(&'u str, &'u [u8])>,
    deaths: Vec<Entry>,
    /// The keys under `CC`, which also route it.
    copies: Vec<HeaderValue>,
}

impl<'u> Headers<'u> {
    fn of(unit: &Unit<'u>) -> Result<Headers<'u>, FormatError> {
        let table = props::read(unit.props).map_err(|_| MALFORMED)?.headers.unwrap_or_default();
        Headers::read(table).map_err(|_| MALFORMED)
    }

    fn read(table: &'u [u8]) -> Result<Headers<'u>, WireError> {
        let mut headers = Headers { others: Vec::new(), deaths: Vec::new(), copies: Vec::new() };
        let mut reader = ByteReader::new(table);
        while reader.left() > 0 {
            let from = table.len() - reader.left();
            let name = short(&mut reader)?;
            table::skip_value(&mut reader)?;
            let field = table.get(from..table.len() - reader.left()).unwrap_or_default();
            if name == DEATHS || name == CC {
                let list = match table::read(field)?.pop() {
                    Some(Header { value: HeaderValue::List(list), .. }) => list,
                    _ => Vec::new(),
                };
                if name == CC {
                    headers.copies = list;
                    headers.others.push((name, field));
                    continue;
                }
                let entry = |value| if let HeaderValue::Table(entry) = value { Some(Entry(entry)) } else { None };
                headers.deaths = list.into_iter().filter_map(entry).collect();
                continue;
            }
            headers.others.push((name, field));
        }
        Ok(headers)
    }

    /// Its deaths with one more, and how many of them, from the front, are the broker's.
    fn with(&self, unit: &Unit<'_>, death: &Death<'_>, expiration: Option<&[u8]>) -> (Vec<Entry>, u8) {
        let mut deaths = self.deaths.clone();
        let known = deaths.iter().position(|entry| entry.is(death));
        let entry = match known {
            Some(at) => deaths.remove(at).again(),
            None => self.entry(unit, death, expiration),
        };
        deaths.insert(0, entry);
        let was_own = known.is_some_and(|at| at < usize::from(unit.deaths));
        (deaths, if was_own { unit.deaths } else { unit.deaths.saturating_add(1) })
    }

    fn entry(&self, unit: &Unit<'_>, death: &Death<'_>, expiration: Option<&[u8]>) -> Entry {
        let text = |text: &str| HeaderValue::Text(text.to_owned());
        let keys = std::iter::once(text(unit.key)).chain(self.copies.iter().cloned()).collect();
        let mut entry = vec![
            header("count", HeaderValue::Int(1)),
            header("reason", text(death.reason.name())),
            header("queue", text(death.queue)),
            header("time", HeaderValue::Time(death.at)),
            header("exchange", text(unit.exchange)),
            header("routing-keys", HeaderValue::List(keys)),
        ];
        if let Some(expiration) = expiration.and_then(|digits| std::str::from_utf8(digits).ok()) {
            entry.push(header("original-expiration", text(expiration)));
        }
        Entry(entry)
    }

    fn put(&self, deaths: &[Entry], unit: &Unit<'_>, death: &Death<'_>, out: &mut Vec<u8>) {
        let is_first = !self.others.iter().any(|(name, _)| *name == "x-first-death-reason");
        for (name, field) in &self.others {
            // With a key of its own the letter goes there alone.
            let goes = name.starts_with("x-last-death-") || (*name == CC && death.key.is_some());
            if !goes {
                out.extend_from_slice(field);
            }
        }
        let list = deaths.iter().map(|entry| HeaderValue::Table(entry.0.clone())).collect();
        table::put_field(out, &header(DEATHS, HeaderValue::List(list)));
        for which in ["first", "last"].into_iter().skip(usize::from(!is_first)) {
            for (what, value) in [("reason", death.reason.name()), ("queue", death.queue), ("exchange", unit.exchange)]
            {
                put_short(out, &format!("x-{which}-death-{what}"));
                out.push(b'S');
                put_long(out, value.as_bytes());
            }
        }
    }
}

fn header(name: &str, value: HeaderValue) -> Header {
    Header { name: name.to_owned(), value }
}

/// The unit's properties with other headers (with their length) and without expiration; the rest as its bytes are.
fn replaced(unit: &Unit<'_>, headers: &[u8]) -> Result<Vec<u8>, FormatError> {
    let parts = props::parts(unit.props).map_err(|_| MALFORMED)?;
    let mut flags = parts.flags | HEADERS;
    flags &= !EXPIRATION;
    let mut out = flags.to_be_bytes().to_vec();
    for bit in (2..16).rev() {
        let flag = 1 << bit;
        match flag {
            EXPIRATION => {}
            HEADERS => out.extend_from_slice(headers),
            _ => out.extend_from_slice(parts.of(bit)),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::Format;

    use super::*;
    use crate::format::FORMAT;
    use crate::wire::props::PropsWriter;

    fn published(headers: &[Header], expiration: Option<&str>) -> Vec<u8> {
        let mut raw = Vec::new();
        let mut writer = PropsWriter::new(&mut raw);
        writer.short(15, Some("text/plain"));
        writer.other(13, |out| table::put(out, headers));
        writer.other(12, |out| out.push(2));
        writer.short(8, expiration);
        writer.short(7, Some("id-1"));
        let mut builder = UnitBuilder::default();
        builder.begin("orders", "new");
        builder.props(&raw);
        builder.body(b"body");
        builder.finish(true, Wall(5_000));
        builder.bytes().to_vec()
    }

    fn death<'a>(queue: &'a str, reason: Reason, at: i64) -> Death<'a> {
        Death { queue, reason, at: Wall(at), exchange: "dlx", key: None }
    }

    fn bury(unit: &[u8], death: &Death<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        FORMAT.bury(unit, death, &mut out).unwrap();
        out
    }

    fn headers(unit: &[u8]) -> Vec<Header> {
        let (unit, _) = Unit::first(unit).unwrap();
        table::read(unit.properties().unwrap().headers.unwrap()).unwrap()
    }

    fn deaths(unit: &[u8]) -> Vec<(String, String, i64)> {
        let found = headers(unit).into_iter().find(|header| header.name == DEATHS).unwrap();
        let HeaderValue::List(list) = found.value else { panic!("no list") };
        let look = |value| {
            let HeaderValue::Table(entry) = value else { panic!("no table") };
            let entry = Entry(entry);
            let Some(HeaderValue::Int(count)) = entry.get("count") else { panic!("no count") };
            (entry.text("queue").unwrap().to_owned(), entry.text("reason").unwrap().to_owned(), *count)
        };
        list.into_iter().map(look).collect()
    }

    fn own(unit: &[u8]) -> Vec<String> {
        let mut own = Vec::new();
        FORMAT.deaths(unit, &mut |queue, reason| own.push(format!("{queue} {}", reason.name()))).unwrap();
        own
    }

    #[test]
    fn a_dead_letter_tells_where_why_and_when_and_lives_on_without_its_expiration() {
        let number = header("n", HeaderValue::Float(1.5));
        let unit = published(std::slice::from_ref(&number), Some("60"));
        let letter = bury(&unit, &death("q", Reason::Expired, 9_000));
        let (read, _) = Unit::first(&letter).unwrap();
        assert_eq!((read.exchange, read.key, read.body, read.published), ("dlx", "new", &b"body"[..], Wall(9_000)));
        let props = read.properties().unwrap();
        assert_eq!((props.expiration, props.message_id), (None, Some(&b"id-1"[..])));
        assert_eq!((props.content_type, props.delivery_mode), (Some(&b"text/plain"[..]), Some(2)));
        let all = headers(&letter);
        assert_eq!(all[0], number);
        let text = |text: &str| HeaderValue::Text(text.into());
        let entry = vec![
            header("count", HeaderValue::Int(1)),
            header("reason", text("expired")),
            header("queue", text("q")),
            header("time", HeaderValue::Time(Wall(9_000))),
            header("exchange", text("orders")),
            header("routing-keys", HeaderValue::List(vec![text("new")])),
            header("original-expiration", text("60")),
        ];
        assert_eq!(all[1], header(DEATHS, HeaderValue::List(vec![HeaderValue::Table(entry)])));
        let rest: Vec<_> = all[2..].iter().map(|header| header.name.as_str()).collect();
        assert_eq!(rest[..3], ["x-first-death-reason", "x-first-death-queue", "x-first-death-exchange"]);
        assert_eq!(rest[3..], ["x-last-death-reason", "x-last-death-queue", "x-last-death-exchange"]);
        assert_eq!(FORMAT.marks(&Bytes::from(letter)).unwrap().time_to_live_ms, None);
    }

    #[test]
    fn deaths_count_by_queue_and_reason_the_latest_first() {
        let one = bury(&published(&[], None), &death("a", Reason::Expired, 1_000));
        let two = bury(&one, &death("b", Reason::Rejected, 2_000));
        let three = bury(&two, &death("a", Reason::Expired, 3_000));
        let named = |queue: &str, reason: &str, count| (queue.to_owned(), reason.to_owned(), count);
        assert_eq!(deaths(&two), [named("b", "rejected", 1), named("a", "expired", 1)]);
        assert_eq!(deaths(&three), [named("a", "expired", 2), named("b", "rejected", 1)]);
        assert_eq!(own(&three), ["a expired", "b rejected"]);
        let firsts = headers(&three).iter().filter(|header| header.name.starts_with("x-first")).count();
        assert_eq!(firsts, 3);
        let last = headers(&three).into_iter().find(|header| header.name == "x-last-death-queue").unwrap();
        assert_eq!(last.value, HeaderValue::Text("a".into()));
    }

    #[test]
    fn what_a_client_sends_along_is_counted_on_but_makes_no_cycle() {
        let letter = bury(&published(&[], None), &death("q", Reason::Expired, 1_000));
        let again = published(&headers(&letter), None);
        assert!(own(&again).is_empty(), "a client's publish begins anew");
        let next = bury(&again, &death("other", Reason::Rejected, 2_000));
        assert_eq!(own(&next), ["other rejected"]);
        let last = bury(&next, &death("q", Reason::Expired, 3_000));
        assert_eq!(own(&last), ["q expired", "other rejected"]);
        assert_eq!(deaths(&last)[0].2, 2);
    }

    #[test]
    fn a_key_of_its_own_takes_the_copies_off() {
        let copies = header("CC", HeaderValue::List(vec![HeaderValue::Text("also".into())]));
        let unit = published(&[copies], None);
        let kept = bury(&unit, &death("q", Reason::Rejected, 1_000));
        assert!(headers(&kept).iter().any(|header| header.name == "CC"));
        let moved = bury(&unit, &Death { key: Some("dead"), ..death("q", Reason::Rejected, 1_000) });
        assert!(!headers(&moved).iter().any(|header| header.name == "CC"));
        assert_eq!(FORMAT.address(&kept).unwrap().more_keys, ["also"]);
        let address = FORMAT.address(&moved).unwrap();
        assert_eq!((address.key, address.more_keys.len()), ("dead", 0));
    }

    #[test]
    fn what_is_revived_is_as_it_was_before_its_last_death_and_keeps_its_history() {
        let unit = published(&[header("n", HeaderValue::Int(1))], Some("60"));
        assert_eq!(FORMAT.origin(&unit).unwrap(), None);
        let once = bury(&unit, &death("q", Reason::Expired, 9_000));
        let twice = bury(&once, &Death { key: Some("dead"), ..death("retry", Reason::Rejected, 9_500) });
        assert_eq!(FORMAT.origin(&twice).unwrap().as_deref(), Some("retry"));
        for (letter, before) in [(&once, ("orders", "new")), (&twice, ("dlx", "new"))] {
            let mut out = Vec::new();
            FORMAT.revive(letter, Wall(10_000), &mut out).unwrap();
            let (read, _) = Unit::first(&out).unwrap();
            assert_eq!(((read.exchange, read.key), read.published, read.deaths), (before, Wall(10_000), 0));
            assert_eq!((headers(&out), read.body, read.persistent), (headers(letter), &b"body"[..], true));
            assert!(own(&out).is_empty(), "somebody has looked at it: no death of before makes a cycle");
        }
    }
}
