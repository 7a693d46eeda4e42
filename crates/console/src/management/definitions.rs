//! Definitions: export and import, of everything and of one virtual host.

use super::call::{Call, now};
use crate::api::{Answer, Handled};
use crate::definitions::{self, File, Importing, Scope};
use crate::http::Response;
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
    take(call, Some(tenant))
}

fn take(call: &mut Call<'_>, tenant: Option<String>) -> Handled {
    let file = serde_json::from_slice::<File>(call.body);
    let file = file.map_err(|_| Refusal::bad_request("failed_to_parse_json"))?;
    let scope = Scope { session: call.session, user: call.asker.principal.user.to_string(), tenant, dry_run: false };
    let importing = Importing::begin(call.broker, scope, file, |report| match report.refused() {
        refused if refused.is_empty() => Ok(Response::json(204, &serde_json::Value::Null)),
        refused => Err(Refusal::bad_request(refused.join("; "))),
    })?;
    Ok(Answer::worked(call.call, importing))
}
