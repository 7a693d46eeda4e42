//! Definitions: export and import, of everything and of one virtual host.

use serde_json::Value;

use super::call::{Call, done, now};
use crate::api::Handled;
use crate::definitions::{self, Scope};
use crate::refusal::Refusal;

fn vhost(call: &Call<'_>) -> Result<String, Refusal> {
    let tenant = call.parameter(0).to_owned();
    if call.broker.has_tenant(&tenant) { Ok(tenant) } else { Err(Refusal::bad_request("vhost_not_found")) }
}

/// All definitions.
pub fn export(call: &mut Call<'_>) -> Handled {
    now(&definitions::all(call.broker))
}

/// The definitions of a virtual host.
pub fn export_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = vhost(call)?;
    now(&definitions::of_tenant(call.broker, &tenant))
}

/// Takes definitions in. What can be taken is; if something cannot, the answer names it. `POST /api/v1/definitions`
/// reports more.
pub fn import(call: &mut Call<'_>) -> Handled {
    take(call, None)
}

/// Takes definitions into one virtual host.
pub fn import_vhost(call: &mut Call<'_>) -> Handled {
    let tenant = vhost(call)?;
    take(call, Some(&tenant))
}

fn take(call: &mut Call<'_>, tenant: Option<&str>) -> Handled {
    let parsed = serde_json::from_slice::<Value>(call.body).ok().filter(Value::is_object);
    let definitions = parsed.ok_or_else(|| Refusal::bad_request("failed_to_parse_json"))?;
    let user = &call.asker.principal.user;
    let scope = Scope { session: call.session, user, now: call.now, tenant, dry_run: false };
    let (report, lsn) = definitions::import(call.broker, scope, &definitions).map_err(Refusal::bad_request)?;
    match report.refused() {
        refused if refused.is_empty() => done(204, lsn),
        refused => Err(Refusal::bad_request(refused.join("; "))),
    }
}
