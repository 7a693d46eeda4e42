//! What stands behind the question mark: columns, sorting, pages, and flags.

use serde_json::{Map, Value};

use crate::http::decode;
use crate::refusal::Refusal;

/// The most items on a page.
const PAGE_ITEMS_MAX: usize = 500;

/// Items on a page whose size is not said.
const PAGE_ITEMS: usize = 100;

/// Columns that one request may name.
const COLUMNS_MAX: usize = 256;

/// Bytes of memory that a compiled pattern takes: by this and the length of a name one match is bounded.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// Names and values, decoded, in order.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

/// Which page of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// From 1 on.
    pub number: usize,
    /// Items on it.
    pub items: usize,
}

impl Query {
    /// Reads it. What cannot be decoded is passed over.
    #[must_use]
    pub fn read(text: &str) -> Query {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(&value.replace('+', " "))?))
        };
        Query { pairs: text.split('&').filter(|pair| !pair.is_empty()).filter_map(pair).collect() }
    }

    /// The first value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether it says true.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// Which page is asked for, if pages are.
    ///
    /// # Errors
    /// 400 in the words of the original.
    pub fn page(&self) -> Result<Option<Page>, Refusal> {
        let Some(number) = self.get("page") else { return Ok(None) };
        let invalid = || Refusal::bad_request("Pagination parameters are invalid");
        let number: i64 = number.parse().map_err(|_| invalid())?;
        let items: i64 = self.get("page_size").map_or(Ok(PAGE_ITEMS as i64), str::parse).map_err(|_| invalid())?;
        if number < 1 || items < 1 || items > PAGE_ITEMS_MAX as i64 {
            let reason = format!("Invalid pagination parameters: page number {number}, page size {items}");
            return Err(Refusal::new(400, "invalid_pagination_parameters", reason));
        }
        Ok(Some(Page { number: usize::try_from(number).unwrap_or(usize::MAX), items: items as usize }))
    }

    /// What names must hold.
    ///
    /// # Errors
    /// 400 for what is no pattern.
    pub fn filter(&self) -> Result<Filter, Refusal> {
        let Some(name) = self.get("name").filter(|name| !name.is_empty()) else { return Ok(Filter::All) };
        if !self.is_true("use_regex") {
            return Ok(Filter::Part(name.to_lowercase()));
        }
        let mut builder = regex::RegexBuilder::new(name);
        builder.case_insensitive(true).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(1 << 20);
        let built = builder.build().map_err(|why| match why {
            regex::Error::CompiledTooBig(_) => {
                let reason =
                    format!("the pattern 'name' takes more than {PATTERN_BYTES_MAX} bytes compiled: repeat less in it");
                Refusal::bad_request(reason)
            }
            _ => Refusal::bad_request("Pagination parameters are invalid"),
        })?;
        Ok(Filter::Regex(Box::new(built)))
    }

    /// The column to sort by, and whether the other way round.
    #[must_use]
    pub fn sort(&self) -> Option<(Vec<String>, bool)> {
        let path = self.get("sort").filter(|path| !path.is_empty())?;
        Some((path.split('.').map(str::to_owned).collect(), self.is_true("sort_reverse")))
    }

    /// The columns wanted, each a path; `None` is all.
    #[must_use]
    pub fn columns(&self) -> Option<Vec<Vec<String>>> {
        let text = self.get("columns").filter(|text| !text.is_empty())?;
        let path = |column: &str| column.split('.').map(str::to_owned).collect();
        Some(text.split(',').take(COLUMNS_MAX).map(path).collect())
    }
}

/// Which names are wanted.
#[derive(Debug)]
pub enum Filter {
    /// All.
    All,
    /// Those that hold this, in lower case.
    Part(String),
    /// Those that match.
    Regex(Box<regex::Regex>),
}

impl Filter {
    /// Whether `name` is wanted.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        match self {
            Filter::All => true,
            Filter::Part(part) => name.to_lowercase().contains(part),
            Filter::Regex(regex) => regex.is_match(name),
        }
    }
}

/// The value at a path.
#[must_use]
pub fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, part| value.get(part))
}

/// Only the columns wanted.
#[must_use]
pub fn pick(value: &Value, columns: &[Vec<String>]) -> Value {
    let mut out = Map::new();
    for path in columns {
        if let Some(found) = at(value, path) {
            put(&mut out, path, found);
        }
    }
    Value::Object(out)
}

fn put(out: &mut Map<String, Value>, path: &[String], found: &Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        out.insert(first.clone(), found.clone());
        return;
    }
    let next = out.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(next) = next {
        put(next, rest, found);
    }
}

/// The order of two values of a column: what is not there first, then by kind.
#[must_use]
pub fn order(one: &Value, other: &Value) -> std::cmp::Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) | Value::Object(_) => 4,
    };
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one.as_f64().unwrap_or_default().total_cmp(&other.as_f64().unwrap_or_default())
        }
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        _ => rank(one).cmp(&rank(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pages_are_bounded_in_the_words_of_the_original() {
        let said = |text: &str| Query::read(text).page().map_err(|refusal| refusal.reason);
        assert_eq!(said("a=b"), Ok(None));
        assert_eq!(said("page=2"), Ok(Some(Page { number: 2, items: 100 })));
        assert_eq!(said("page=x"), Err("Pagination parameters are invalid".into()));
        let reason = "Invalid pagination parameters: page number 1, page size 600";
        assert_eq!(said("page=1&page_size=600"), Err(reason.into()));
        let reason = "Invalid pagination parameters: page number 0, page size 10";
        assert_eq!(said("page=0&page_size=10"), Err(reason.into()));
        assert!(Query::read("name=%28&use_regex=true").filter().is_err());
    }

    #[test]
    fn columns_may_lie_deep() {
        let columns = Query::read("columns=name,a.b.c,none").columns().unwrap();
        let value = json!({ "name": "q", "a": { "b": { "c": 1, "d": 2 } } });
        assert_eq!(pick(&value, &columns), json!({ "name": "q", "a": { "b": { "c": 1 } } }));
    }

    #[test]
    fn names_are_filtered_by_a_part_or_a_pattern() {
        let takes = |query: &str, name: &str| Query::read(query).filter().unwrap().takes(name);
        assert!(takes("", "anything") && takes("name=ORD", "my.orders"));
        assert!(!takes("name=%5Eord&use_regex=true", "my.orders"));
        assert!(takes(r"name=%5E\w%2B\.\d%2B$&use_regex=true", "orders.17"));
        assert!(Query::read("name=(w{0,50}){0,50}x&use_regex=true").filter().is_err());
        assert!(takes("name=%5Eord&use_regex=true", "orders") && takes("name=a+b", "xa by"));
    }
}
