//! A broker under load: where it listens and which process it is.

use std::str::FromStr;

/// A running broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How the table calls it.
    pub name: String,
    /// `host:port` of its Kafka door.
    pub address: String,
    /// Its process.
    pub pid: u32,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let parse = || {
            let (name, rest) = text.split_once('=')?;
            let (address, pid) = rest.rsplit_once('@')?;
            Some(Target { name: name.to_owned(), address: address.to_owned(), pid: pid.parse().ok()? })
        };
        parse().ok_or_else(|| format!("'{text}' is not NAME=HOST:PORT@PID, such as kafka=127.0.0.1:19092@4711"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_name_address_and_pid() {
        let target: Target = "ours=127.0.0.1:9092@12".parse().expect("a good target");
        assert_eq!((target.name.as_str(), target.address.as_str(), target.pid), ("ours", "127.0.0.1:9092", 12));
        assert!("127.0.0.1:9092".parse::<Target>().is_err());
    }
}
