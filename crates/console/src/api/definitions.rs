//! Definitions: all that exists as one file, and taking one in with a report of what came of it.

use serde_json::Value;

use super::{Call, Handled, after, now};
use crate::definitions::{self, Scope};
use crate::refusal::Refusal;

/// The definitions of everything, or of `?tenant=…`.
pub fn export(call: &mut Call<'_>) -> Handled {
    match call.is_asked("tenant") {
        true => now(&definitions::of_tenant(call.broker, &call.tenant()?)),
        false => now(&definitions::all(call.broker)),
    }
}

/// Takes definitions in; with `?dry-run=true` nothing changes, and the report says what would.
pub fn import(call: &mut Call<'_>) -> Handled {
    let definitions: Value = call.json()?;
    let tenant = if call.is_asked("tenant") { Some(call.tenant()?) } else { None };
    let dry_run = call.query.split('&').any(|pair| matches!(pair, "dry-run" | "dry-run=true"));
    let user = call.principal.map_or("", |who| who.user.as_str());
    let scope = Scope { session: call.session, user, now: call.now, tenant: tenant.as_deref(), dry_run };
    let (report, lsn) = definitions::import(call.broker, scope, &definitions).map_err(Refusal::bad_request)?;
    after(lsn, 200, &report.show(dry_run))
}
