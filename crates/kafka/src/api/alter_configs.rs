//! AlterConfigs: replaces all settings of topics at once: what is not named goes back to its default. Also what it and
//! IncrementalAlterConfigs have in common.

use std::collections::HashSet;

use broker::topic::ConfigChange;
use broker::{Cx, Lsn, SyncPolicy};
use model::ReadError;

use super::asker::{error_text, is_topic_name, twice};
use super::describe_configs::{BROKER, TOPIC};
use super::{Asker, CONFIGURE, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, messages};

pub(crate) static ROW: Row = row_of((33, "AlterConfigs"), 0..=2, 2, handle);

messages! {
    AlterConfigsRequest<'a> {
        resources: Vec<AlteredResource<'a>>, 0+;
        validate_only: bool, 0+;
    }
    AlteredResource<'a> {
        resource_type: i8, 0+;
        resource_name: Text<'a>, 0+;
        configs: Vec<AlteredConfig<'a>>, 0+;
    }
    AlteredConfig<'a> {
        name: Text<'a>, 0+;
        value: Option<Text<'a>>, 0+ null 0;
    }
    AlterConfigsResponse<'a> {
        throttle_time_ms: i32, 0+;
        responses: Vec<AlterOutcome<'a>>, 0+;
    }
    AlterOutcome<'a> {
        error_code: i16, 0+;
        error_message: Option<Text<'a>>, 0+ null 0;
        resource_type: i8, 0+;
        resource_name: Text<'a>, 0+;
    }
}

/// Why a resource's settings stay as they are.
pub(super) type Refusal = (ErrorCode, String);

/// Settings with what becomes of each.
pub(super) type Changes = Vec<(String, ConfigChange)>;

/// A kind of resource and its name.
pub(super) type Resource<'r> = (i8, &'r str);

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: AlterConfigsRequest<'_> = call.read_body()?;
    let named = request.resources.iter().map(|resource| (resource.resource_type, &*resource.resource_name));
    let mut altering = Altering::new(named, request.validate_only);
    let responses = request.resources.iter().map(|resource| {
        let of = (resource.resource_type, &*resource.resource_name);
        let changes = replacing(asker, cx, resource);
        altering.alter(asker, cx, of, changes)
    });
    let responses = responses.collect();
    Ok(altering.reply(asker, call.to, responses))
}

/// What is named is set; what is set now and not named is unset.
fn replacing(asker: &Asker, cx: &Cx<'_>, resource: &AlteredResource<'_>) -> Result<Changes, Refusal> {
    let mut changes = Changes::with_capacity(resource.configs.len());
    for config in &resource.configs {
        let value = config.value.as_deref().ok_or_else(|| null_value(&config.name))?;
        changes.push((config.name.to_string(), ConfigChange::Set(value.to_owned())));
    }
    let now = match resource.resource_type {
        TOPIC => cx.broker.topic_config(&asker.settings.tenant, &resource.resource_name).unwrap_or_default(),
        _ => Vec::new(),
    };
    let is_kept = |name: &str| resource.configs.iter().any(|config| config.name == name);
    let gone = now.iter().filter(|entry| !entry.is_default && !is_kept(entry.name));
    changes.extend(gone.map(|entry| (entry.name.to_owned(), ConfigChange::Unset)));
    Ok(changes)
}

/// A change that needs a value came without one.
pub(super) fn null_value(name: &str) -> Refusal {
    (ErrorCode::INVALID_REQUEST, format!("{name} needs a value: null is none"))
}

/// One request under way.
pub(super) struct Altering<'r> {
    twice: HashSet<Resource<'r>>,
    validate_only: bool,
    gate: Option<Lsn>,
}

impl<'r> Altering<'r> {
    /// A request that names `resources`.
    pub fn new(resources: impl Iterator<Item = Resource<'r>>, validate_only: bool) -> Altering<'r> {
        Altering { twice: twice(resources), validate_only, gate: None }
    }

    /// Changes one resource, all or nothing.
    pub fn alter(
        &mut self,
        asker: &Asker,
        cx: &mut Cx<'_>,
        of: Resource<'r>,
        changes: Result<Changes, Refusal>,
    ) -> AlterOutcome<'r> {
        let refused = changes.and_then(|changes| self.try_alter(asker, cx, of, &changes)).err();
        AlterOutcome {
            error_code: refused.as_ref().map_or(ErrorCode::NONE, |(code, _)| *code).0,
            error_message: refused.and_then(|(_, text)| error_text(&text)),
            resource_type: of.0,
            resource_name: Text::Borrowed(of.1),
        }
    }

    fn try_alter(
        &mut self,
        asker: &Asker,
        cx: &mut Cx<'_>,
        of: Resource<'_>,
        changes: &[(String, ConfigChange)],
    ) -> Result<(), Refusal> {
        let invalid = |text: &str| Err((ErrorCode::INVALID_REQUEST, text.to_owned()));
        if self.twice.contains(&of) {
            return invalid("the request names the resource more than once");
        }
        if !twice(changes.iter().map(|(name, _)| name)).is_empty() {
            return invalid("the request names a setting of the resource more than once");
        }
        match of {
            (TOPIC, "") => invalid("settings for all topics at once do not exist: name a topic"),
            (TOPIC, name) if !is_topic_name(name) => {
                Err((ErrorCode::INVALID_TOPIC_EXCEPTION, format!("'{name}' is no topic name")))
            }
            (TOPIC, name) => {
                let allowed = asker.may_use(cx.broker, name, CONFIGURE);
                allowed.map_err(|code| (code, format!("no permission to change topic '{name}'")))?;
                let topic = (asker.settings.tenant.as_str(), name);
                let altered = cx.broker.alter_topic(topic, changes, self.validate_only, cx.now);
                let lsn = altered.map_err(|error| (ErrorCode::from(&error), error.to_string()))?;
                self.gate = self.gate.max(Some(lsn));
                Ok(())
            }
            (BROKER, name) if !name.is_empty() && name != asker.settings.node_id.to_string() => {
                invalid(&format!("this is broker {}, not '{name}'", asker.settings.node_id))
            }
            (BROKER, _) if changes.is_empty() => Ok(()),
            (BROKER, _) => {
                let names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
                let why = "a broker's settings are given at its start (file, environment, flags) and stay";
                invalid(&format!("{why}: {}", names.join(", ")))
            }
            (other, _) => invalid(&format!("resources of type {other} have no settings here")),
        }
    }

    /// The answer, held back until what was changed is on disk.
    pub fn reply(self, asker: &mut Asker, to: ReplyTo, responses: Vec<AlterOutcome<'_>>) -> Answer {
        let response = AlterConfigsResponse { responses, ..AlterConfigsResponse::default() };
        asker.reply_gated(to, &response, self.gate.map(|lsn| Gate::of(SyncPolicy::Sync, lsn)), fail)
    }
}

fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: AlterConfigsResponse<'_> = to.decode(frame)?;
    for outcome in response.responses.iter_mut().filter(|outcome| outcome.error_code == ErrorCode::NONE.0) {
        outcome.error_code = ErrorCode::KAFKA_STORAGE_ERROR.0;
    }
    Some(to.encode(&response, Vec::new()))
}
