//! The headers CC and BCC: further routing keys that a publisher gives a message. BCC is not shown to receivers: it is
//! taken out before the message is stored.

use model::{ByteReader, HeaderValue};

use crate::config::ROUTES_MAX;
use crate::errors::Refusal;
use crate::wire::props::Props;
use crate::wire::{WireError, table};

/// Headers whose routes count, in the order in which they are looked at.
const NAMES: [&str; 2] = ["CC", "BCC"];

/// Checks a message's headers and adds the routes they name to `routes`; true when there is a BCC to take out.
///
/// # Errors
/// 406 when one of them is no array or names too many routes, 502 for a malformed table.
pub fn collect(headers: &[u8], routes: &mut Vec<String>) -> Result<bool, Refusal> {
    let mut found = [None; 2];
    table::check(headers, |name, letter| {
        if let Some(at) = NAMES.iter().position(|known| known.as_bytes() == name) {
            found[at] = Some(letter);
        }
    })?;
    if found == [None, None] {
        return Ok(false);
    }
    for (name, letter) in NAMES.iter().zip(found) {
        if let Some(letter) = letter.filter(|letter| *letter != b'A') {
            let kind = letter_name(letter);
            let text = format!("invalid message: {{unacceptable_type_in_header,\"{name}\",{kind}}}");
            return Err(Refusal::precondition(text));
        }
    }
    for header in table::read(headers)? {
        if NAMES.contains(&header.name.as_str())
            && let HeaderValue::List(values) = header.value
        {
            routes.extend(values.into_iter().filter_map(|value| match value {
                HeaderValue::Text(text) => Some(text),
                _ => None,
            }));
            if routes.len() > ROUTES_MAX {
                let text = format!("invalid message: CC and BCC name more than {ROUTES_MAX} routes");
                return Err(Refusal::precondition(text));
            }
        }
    }
    Ok(found[1].is_some())
}

/// The properties without BCC.
///
/// # Errors
/// 502 for a malformed table.
pub fn without_bcc(raw: &[u8], props: &Props<'_>) -> Result<Vec<u8>, WireError> {
    let headers = props.headers.unwrap_or_default();
    // The table's bytes lie in `raw`: what stands before and behind them is kept.
    let at = (headers.as_ptr() as usize).saturating_sub(raw.as_ptr() as usize);
    let (before, behind) = (raw.get(..at.saturating_sub(4)), raw.get(at + headers.len()..));
    let mut out = before.unwrap_or_default().to_vec();
    let mut reader = ByteReader::new(headers);
    let mut kept = Vec::new();
    while reader.left() > 0 {
        let from = headers.len() - reader.left();
        let name = table::pass(&mut reader)?;
        if name != b"BCC" {
            kept.extend_from_slice(headers.get(from..headers.len() - reader.left()).unwrap_or_default());
        }
    }
    crate::wire::text::put_long(&mut out, &kept);
    out.extend_from_slice(behind.unwrap_or_default());
    Ok(out)
}

fn letter_name(letter: u8) -> &'static str {
    match letter {
        b'S' => "longstr",
        b'I' => "signedint",
        b'i' => "unsignedint",
        b'l' | b'L' => "long",
        b's' => "short",
        b'u' => "unsignedshort",
        b'b' => "byte",
        b'B' => "unsignedbyte",
        b't' => "bool",
        b'd' => "double",
        b'f' => "float",
        b'D' => "decimal",
        b'T' => "timestamp",
        b'F' => "table",
        b'x' => "binary",
        _ => "void",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::props;
    use model::Header;

    fn headers(all: &[(&str, HeaderValue)]) -> Vec<u8> {
        let all = all.iter().map(|(name, value)| Header { name: (*name).into(), value: value.clone() });
        let mut out = Vec::new();
        table::put(&mut out, &all.collect::<Vec<_>>());
        out.split_off(4)
    }

    fn list(texts: &[&str]) -> HeaderValue {
        HeaderValue::List(texts.iter().map(|text| HeaderValue::Text((*text).into())).collect())
    }

    #[test]
    fn routes_are_gathered_from_both_and_only_from_arrays() {
        let mut routes = Vec::new();
        let bytes = headers(&[("BCC", list(&["c"])), ("x", HeaderValue::Int(1)), ("CC", list(&["a", "b"]))]);
        assert_eq!(collect(&bytes, &mut routes), Ok(true));
        assert_eq!(routes, ["c", "a", "b"]);
        assert_eq!(collect(&headers(&[("CC", list(&["a"]))]), &mut routes), Ok(false));
        let refused = collect(&headers(&[("CC", HeaderValue::Text("a".into()))]), &mut routes).unwrap_err();
        assert_eq!(refused.text, "invalid message: {unacceptable_type_in_header,\"CC\",longstr}");
        assert_eq!(collect(&headers(&[("cc", HeaderValue::Int(1))]), &mut routes), Ok(false));
    }

    #[test]
    fn a_message_that_names_very_many_routes_is_refused() {
        let many = vec!["a"; ROUTES_MAX];
        assert!(collect(&headers(&[("CC", list(&many))]), &mut Vec::new()).is_ok());
        let refused = collect(&headers(&[("CC", list(&many)), ("BCC", list(&["b"]))]), &mut Vec::new()).unwrap_err();
        assert_eq!(refused.text, "invalid message: CC and BCC name more than 1000 routes");
    }

    #[test]
    fn only_bcc_is_taken_out() {
        let table_bytes = headers(&[("a", HeaderValue::Int(1)), ("BCC", list(&["c"])), ("CC", list(&["d"]))]);
        let mut raw = vec![0b1011_0000, 0, 1, b't'];
        crate::wire::text::put_long(&mut raw, &table_bytes);
        raw.push(2);
        let stripped = without_bcc(&raw, &props::read(&raw).unwrap()).unwrap();
        let left = props::read(&stripped).unwrap();
        assert_eq!((left.content_type, left.delivery_mode), (Some(&b"t"[..]), Some(2)));
        assert_eq!(left.headers, Some(&headers(&[("a", HeaderValue::Int(1)), ("CC", list(&["d"]))])[..]));
    }
}
