//! Users: credentials, logins.

mod api;
mod proof;
mod types;
mod users;
mod waiting;

pub(crate) use proof::default_user;
pub use proof::quick_credential;
pub use types::*;
pub use users::UserDone;
pub(crate) use users::Users;
