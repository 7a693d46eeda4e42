//! Proving who one is: hashes of passwords, made and checked. Runs on other threads; knows no state.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use cluster::meta::{Credential, User};
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

use crate::BrokerError;
use crate::ids::random;

/// The user who exists on a fresh start, from this machine only; the password is the same word.
pub(crate) const DEFAULT_USER: &str = "guest";

/// The tag of who may administer.
const ADMINISTRATOR: &str = "administrator";

/// Memory of one hash, in KiB. Small: hundreds of clients may connect at once, and each hash takes as much.
const ARGON2_KIB: u32 = 4096;
/// Passes over it: the least that is recommended for so little memory.
const ARGON2_PASSES: u32 = 3;

/// Bytes of salt in front of a salted SHA-256.
const SALT_BYTES: usize = 4;

fn argon2() -> Argon2<'static> {
    let params = Params::new(ARGON2_KIB, ARGON2_PASSES, 1, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// A credential for `password`. Takes some 10 ms.
pub(crate) fn hash(password: &[u8]) -> Result<Credential, BrokerError> {
    let salt: [u8; 16] = random()?;
    let failed = |why| BrokerError::Invalid(format!("the password cannot be hashed: {why}"));
    let hash: PasswordHash = argon2().hash_password_with_salt(password, &salt).map_err(failed)?;
    Ok(Credential::Argon2(hash.to_string()))
}

/// Whether a credential from elsewhere can be held against passwords: one that asks for memory without bounds cannot.
///
/// # Errors
/// [`BrokerError::Invalid`] when it cannot.
pub(crate) fn check(credential: &Credential) -> Result<(), BrokerError> {
    let Credential::Argon2(text) = credential else { return Ok(()) };
    let hash = PasswordHash::new(text).ok().filter(is_bearable);
    let wrong = || "the hash of a password is no argon2 hash of at most 64 MiB, 16 passes and 4 lanes".to_owned();
    hash.map(drop).ok_or_else(|| BrokerError::Invalid(wrong()))
}

fn is_bearable(hash: &PasswordHash) -> bool {
    Params::try_from(hash)
        .is_ok_and(|params| params.m_cost() <= 65_536 && params.t_cost() <= 16 && params.p_cost() <= 4)
}

/// Whether `password` is right by any of `credentials`. Without any it takes as long as with one, so that the time does
/// not tell which users exist.
pub(crate) fn verify(password: &[u8], credentials: &[Credential]) -> bool {
    if credentials.is_empty() {
        let mut out = [0; 32];
        let _ = argon2().hash_password_into(password, b"no such user at all", &mut out); // only the time matters
        return false;
    }
    credentials.iter().any(|credential| match credential {
        Credential::Argon2(text) => match PasswordHash::new(text) {
            Ok(hash) if !is_bearable(&hash) => false,
            Ok(hash) => argon2().verify_password(password, &hash).is_ok(),
            Err(_) => false,
        },
        Credential::SaltedSha256(text) => verify_salted::<Sha256>(password, text),
        Credential::SaltedSha512(text) => verify_salted::<Sha512>(password, text),
        Credential::SaltedMd5(text) => verify_salted::<Md5>(password, text),
    })
}

fn verify_salted<D: Digest>(password: &[u8], text: &str) -> bool {
    let Some(bytes) = from_hex(text) else {
        return false;
    };
    let Some((salt, stored)) = bytes.split_at_checked(SALT_BYTES) else {
        return false;
    };
    let computed = D::new().chain_update(salt).chain_update(password).finalize();
    is_equal(&computed, stored)
}

/// Compares in a time that does not depend on where the difference lies.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0u8, |found, (a, b)| found | (a ^ b)) == 0
}

fn salted_sha256(password: &[u8], salt: [u8; SALT_BYTES]) -> Credential {
    let digest = Sha256::new().chain_update(salt).chain_update(password).finalize();
    let hex = salt.iter().chain(digest.iter()).map(|byte| format!("{byte:02x}")).collect();
    Credential::SaltedSha256(hex)
}

/// A credential for `password` that is made at once and checked at once: for many users imported together. What hashes
/// cheaply is found cheaply by who steals the hash; a password set later is kept better.
///
/// # Errors
/// [`BrokerError::Invalid`] when the system gives no random numbers.
pub fn quick_credential(password: &[u8]) -> Result<Credential, BrokerError> {
    Ok(salted_sha256(password, random()?))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

/// The default user, as made on the first start.
pub(crate) fn default_user() -> Result<User, BrokerError> {
    // Its password is known to everybody: a costly hash would hide nothing and slow the first login down.
    let credentials = vec![salted_sha256(DEFAULT_USER.as_bytes(), random()?)];
    Ok(User { name: DEFAULT_USER.to_owned(), credentials, tags: vec![ADMINISTRATOR.to_owned()], ..User::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_password_is_taken_by_either_kind_and_no_other() {
        for credential in [hash(b"secret").unwrap(), salted_sha256(b"secret", [1, 2, 3, 4])] {
            let only = [credential];
            assert!(verify(b"secret", &only));
            assert!(!verify(b"Secret", &only));
            assert!(!verify(b"", &only));
        }
        assert!(!verify(b"secret", &[]));
        for damaged in ["", "0", "xy", "01020304", "01020304ff"] {
            assert!(!verify(b"secret", &[Credential::SaltedSha256(damaged.into())]), "{damaged}");
            assert!(!verify(b"secret", &[Credential::Argon2(damaged.into())]), "{damaged}");
        }
    }

    /// The first is RabbitMQ 3.10.8's own; the others follow its rule.
    #[test]
    fn hashes_of_other_servers_are_taken() {
        let sha256 = "b1c9e4d45d7b4f71dcfa32fcdf2b44cf7d41e26814c6e0c9d7635c7ba7b1c9351af766e4";
        let sha512 = "696f4d7537755adb4174ac5f04f5c96cf41bf534d20682de887c6e84871477676fffa8526729b0161ec847796741138\
                      3e6b60867d4f5ca75af609dd48994d4b8628297d2";
        for (credential, password) in [
            (Credential::SaltedSha256(sha256.into()), "guest"),
            (Credential::SaltedSha512(sha512.into()), "secret-usha512"),
            (Credential::SaltedMd5("ab3f7bb4dfadee9b37c24f9a4b0c0a86ae012d71".into()), "secret-umd5"),
        ] {
            assert!(verify(password.as_bytes(), std::slice::from_ref(&credential)), "{credential:?}");
            assert!(!verify(b"other", &[credential]));
        }
    }

    #[test]
    fn a_hash_that_asks_for_much_is_refused_and_matches_nothing() {
        let Credential::Argon2(ours) = hash(b"secret").unwrap() else { unreachable!() };
        assert!(check(&Credential::Argon2(ours.clone())).is_ok());
        for more in ["m=65537,t=3,p=1", "m=4096,t=17,p=1", "m=4096,t=3,p=5", "m=4294967295,t=1,p=1"] {
            let costly = Credential::Argon2(ours.replace("m=4096,t=3,p=1", more));
            assert!(check(&costly).is_err(), "{more}");
            assert!(!verify(b"secret", &[costly]), "{more}");
        }
        assert!(check(&Credential::Argon2("no hash".into())).is_err());
    }

    #[test]
    fn salted_sha256_is_salt_then_digest_in_hexadecimal() {
        let Credential::SaltedSha256(made) = salted_sha256(b"test12", [0x90, 0x8d, 0xc6, 0x0a]) else { unreachable!() };
        assert_eq!(made.get(..8), Some("908dc60a"));
        assert_eq!(made.len(), 72);
    }
}
