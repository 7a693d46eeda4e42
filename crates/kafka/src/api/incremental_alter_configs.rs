//! IncrementalAlterConfigs: sets, unsets, appends to and subtracts from single settings of topics.

use broker::Cx;
use broker::topic::ConfigChange;
use model::ReadError;

use super::alter_configs::{Altering, Changes, Refusal, null_value};
use super::{Asker, Row, row_of};
use crate::call::Call;
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((44, "IncrementalAlterConfigs"), 0..=1, 1, handle);

messages! {
    IncrementalAlterConfigsRequest<'a> {
        resources: Vec<ChangedResource<'a>>, 0+;
        validate_only: bool, 0+;
    }
    ChangedResource<'a> {
        resource_type: i8, 0+;
        resource_name: Text<'a>, 0+;
        configs: Vec<ChangedConfig<'a>>, 0+;
    }
    ChangedConfig<'a> {
        name: Text<'a>, 0+;
        config_operation: i8, 0+;
        value: Option<Text<'a>>, 0+ null 0;
    }
}

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: IncrementalAlterConfigsRequest<'_> = call.read_body()?;
    let named = request.resources.iter().map(|resource| (resource.resource_type, &*resource.resource_name));
    let mut altering = Altering::new(named, request.validate_only);
    let responses = request.resources.iter().map(|resource| {
        let of = (resource.resource_type, &*resource.resource_name);
        altering.alter(asker, cx, of, changes_of(resource))
    });
    let responses = responses.collect();
    Ok(altering.reply(asker, call.to, responses))
}

fn changes_of(resource: &ChangedResource<'_>) -> Result<Changes, Refusal> {
    let change = |config: &ChangedConfig<'_>| {
        let value = || config.value.as_deref().map(str::to_owned).ok_or_else(|| null_value(&config.name));
        let change = match config.config_operation {
            SET => ConfigChange::Set(value()?),
            DELETE => ConfigChange::Unset,
            APPEND => ConfigChange::Append(value()?),
            SUBTRACT => ConfigChange::Subtract(value()?),
            other => return Err((ErrorCode::INVALID_REQUEST, format!("no operation on settings has number {other}"))),
        };
        Ok((config.name.to_string(), change))
    };
    resource.configs.iter().map(change).collect()
}
