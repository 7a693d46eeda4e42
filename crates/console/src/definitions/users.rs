//! Users in RabbitMQ's words: hashes of passwords in its base64, ours among them under a name of their own.

use broker::user::{Credential, User, UserLimits, quick_credential};
use serde_json::{Map, Value, json};

use crate::auth;

/// Bytes of salt in front of a digest.
const SALT_BYTES: usize = 4;

/// A kind of hash: RabbitMQ's name, the bytes of its digest, how it is kept.
pub type Hashing = (&'static str, usize, fn(String) -> Credential);

/// All kinds that are known.
pub const HASHINGS: [Hashing; 3] = [
    ("rabbit_password_hashing_sha256", 32, Credential::SaltedSha256),
    ("rabbit_password_hashing_sha512", 64, Credential::SaltedSha512),
    ("rabbit_password_hashing_md5", 16, Credential::SaltedMd5),
];

/// Our own hash, which RabbitMQ does not know: there such a user needs a new password.
const OURS: &str = "rabbit_password_hashing_argon2id";

/// A user from what a file says.
///
/// # Errors
/// What does not fit, as a sentence.
pub fn read(name: &str, body: &Map<String, Value>) -> Result<User, String> {
    let user = User {
        name: name.to_owned(),
        tags: tags(body.get("tags"))?,
        limits: limits(body.get("limits"))?,
        ..User::default()
    };
    if let Some(password) = body.get("password").and_then(Value::as_str) {
        let credential = quick_credential(password.as_bytes()).map_err(|error| error.to_string())?;
        return Ok(User { credentials: vec![credential], ..user });
    }
    match body.get("password_hash").map(Value::as_str) {
        None => Err("neither 'password_hash' nor 'password' is given".to_owned()),
        Some(Some("")) => Ok(user), // a user without a password: by certificate only
        Some(Some(hash)) => {
            let algorithm = body.get("hashing_algorithm").and_then(Value::as_str);
            Ok(User { credentials: vec![credential(hash, algorithm)?], ..user })
        }
        Some(None) => Err("'password_hash' is no text".to_owned()),
    }
}

/// What proves a user, by its hash in base64 and the name of how it was made.
///
/// # Errors
/// What is wrong with it, for people.
pub fn credential(hash: &str, algorithm: Option<&str>) -> Result<Credential, String> {
    let bytes = auth::base64(hash.as_bytes()).ok_or("'password_hash' is not base64")?;
    if algorithm == Some(OURS) {
        let text = String::from_utf8(bytes).map_err(|_| "'password_hash' is not one of ours")?;
        return Ok(Credential::Argon2(text));
    }
    let named = algorithm.unwrap_or("rabbit_password_hashing_sha256");
    let Some((_, digest, make)) = HASHINGS.iter().find(|(name, ..)| *name == named) else {
        let known = HASHINGS.map(|(name, ..)| name).join(", ");
        return Err(format!(
            "'hashing_algorithm' is '{named}', and only {known} are known: give the user a new password"
        ));
    };
    if bytes.len() != SALT_BYTES + digest {
        let expected = SALT_BYTES + digest;
        return Err(format!("'password_hash' has {} bytes, and {named} has {expected}", bytes.len()));
    }
    Ok(make(auth::hex_of(&bytes)))
}

/// Tags as a list or, as older servers wrote them, in one text with commas.
fn tags(value: Option<&Value>) -> Result<Vec<String>, String> {
    let words = |text: &str| text.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect();
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(words(text)),
        Some(Value::Array(all)) => all
            .iter()
            .map(|tag| tag.as_str().map(str::to_owned).ok_or("'tags' holds what is no text".to_owned()))
            .collect(),
        Some(_) => Err("'tags' is neither a list nor a text".to_owned()),
    }
}

fn limits(value: Option<&Value>) -> Result<UserLimits, String> {
    Ok(UserLimits { connections_max: limit(value, "max-connections")?, channels_max: limit(value, "max-channels")? })
}

/// One limit of several; a negative one is none.
pub fn limit(all: Option<&Value>, name: &str) -> Result<Option<u64>, String> {
    match all.and_then(|all| all.get(name)) {
        None => Ok(None),
        Some(value) => {
            let number = value.as_i64().ok_or_else(|| format!("'{name}' is {value}, not a number"))?;
            Ok(u64::try_from(number).ok())
        }
    }
}

/// A user as it is exported.
pub fn show(user: &User) -> Value {
    let (hash, algorithm) = user.credentials.first().map_or((String::new(), HASHINGS[0].0), shown);
    let mut limits = Map::new();
    let all = [("max-connections", user.limits.connections_max), ("max-channels", user.limits.channels_max)];
    limits.extend(all.into_iter().filter_map(|(name, max)| Some((name.to_owned(), max?.into()))));
    json!({
        "name": user.name,
        "password_hash": hash,
        "hashing_algorithm": algorithm,
        "tags": user.tags,
        "limits": limits,
    })
}

/// The hash in base64, and the name of how it was made.
pub fn shown(credential: &Credential) -> (String, &'static str) {
    let (hex, at) = match credential {
        Credential::Argon2(text) => return (auth::base64_of(text.as_bytes()), OURS),
        Credential::SaltedSha256(hex) => (hex, 0),
        Credential::SaltedSha512(hex) => (hex, 1),
        Credential::SaltedMd5(hex) => (hex, 2),
    };
    (auth::base64_of(&auth::bytes_of_hex(hex).unwrap_or_default()), HASHINGS[at].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(hash: &str, algorithm: &str) -> Value {
        json!({ "name": "u", "password_hash": hash, "hashing_algorithm": algorithm, "tags": ["a"], "limits": {} })
    }

    /// Hashes that RabbitMQ 3.10.8 exported.
    #[test]
    fn a_users_hash_comes_and_goes_unchanged() {
        for (hash, algorithm) in [
            ("scnk1F17T3Hc+jL83ytEz31B4mgUxuDJ12Nce6exyTUa92bk", "rabbit_password_hashing_sha256"),
            ("qz97tN+t7ps3wk+aSwwKhq4BLXE=", "rabbit_password_hashing_md5"),
            (
                "aW9NdTd1WttBdKxfBPXJbPQb9TTSBoLeiHxuhIcUd2dv/6hSZymwFh7IR3lnQROD5rYIZ9T1ynWvYJ3UiZTUuGKCl9I=",
                "rabbit_password_hashing_sha512",
            ),
            ("", "rabbit_password_hashing_sha256"),
            ("JGFyZ29uMmlkJA==", OURS),
        ] {
            let body = user(hash, algorithm);
            assert_eq!(show(&read("u", body.as_object().unwrap()).unwrap()), body);
        }
        let old = json!({ "name": "u", "password_hash": "", "tags": "administrator, x" });
        assert_eq!(read("u", old.as_object().unwrap()).unwrap().tags, ["administrator", "x"]);
    }

    #[test]
    fn a_user_that_nobody_could_log_in_as_is_refused_with_the_reason() {
        for (body, why) in [
            (user("!", "rabbit_password_hashing_sha256"), "'password_hash' is not base64"),
            (user("AAAA", "rabbit_password_hashing_sha256"), "'password_hash' has 3 bytes"),
            (user("AAAA", "my_own_hashing"), "'hashing_algorithm' is 'my_own_hashing'"),
            (json!({ "name": "u" }), "neither 'password_hash'"),
            (json!({ "password_hash": "", "tags": 3 }), "'tags' is neither"),
            (json!({ "password_hash": "", "limits": { "max-channels": "x" } }), "'max-channels' is \"x\""),
        ] {
            let said = read("u", body.as_object().unwrap()).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
    }
}
