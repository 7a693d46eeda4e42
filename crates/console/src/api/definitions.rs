//! Definitions: all that exists as one file, and taking one in with a report of what came of it.

use super::{Answer, Call, Handled, now};
use crate::definitions::{self, File, Importing, Scope};
use crate::http::Response;

/// The definitions of everything, or of `?tenant=…`.
pub fn export(call: &mut Call<'_>) -> Handled {
    match call.is_asked("tenant") {
        true => now(&definitions::of_tenant(call.broker, &call.tenant()?)),
        false => now(&definitions::all(call.broker)),
    }
}

/// Takes definitions in; with `?dry-run=true` nothing changes, and the report says what would.
pub fn import(call: &mut Call<'_>) -> Handled {
    let file: File = call.json()?;
    let tenant = if call.is_asked("tenant") { Some(call.tenant()?.to_string()) } else { None };
    let dry_run = call.query.split('&').any(|pair| matches!(pair, "dry-run" | "dry-run=true"));
    let user = call.principal.map_or_else(String::new, |who| who.user.to_string());
    let scope = Scope { session: call.session, user, tenant, dry_run };
    let importing = Importing::begin(call.broker, scope, file, |report| Ok(Response::json(200, &report.show())))?;
    Ok(Answer::worked(call.call, importing))
}
