//! FindCoordinator: who looks after a group. This node does.

use broker::{Broker, Cx};
use model::ReadError;

use super::{Asker, Row, Using, row_of};
use crate::call::Call;
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((10, "FindCoordinator"), 0..=6, 3, handle);

messages! {
    FindCoordinatorRequest<'a> {
        key: Text<'a>, 0-3;
        key_type: i8, 1+;
        coordinator_keys: Vec<Text<'a>>, 4+;
    }
    FindCoordinatorResponse<'a> {
        throttle_time_ms: i32, 1+;
        error_code: i16, 0-3;
        error_message: Option<Text<'a>>, 1-3 null 1;
        node_id: i32, 0-3;
        host: Text<'a>, 0-3;
        port: i32, 0-3;
        coordinators: Vec<Coordinator<'a>>, 4+;
    }
    Coordinator<'a> {
        key: Text<'a>, 4+;
        node_id: i32, 4+;
        host: Text<'a>, 4+;
        port: i32, 4+;
        error_code: i16, 4+;
        error_message: Option<Text<'a>>, 4+ null 4;
    }
}

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: FindCoordinatorRequest<'_> = call.read_body()?;
    if call.version() >= 4 {
        let coordinators =
            request.coordinator_keys.iter().map(|key| find(asker, cx.broker, (call, request.key_type), key));
        let response = FindCoordinatorResponse { coordinators: coordinators.collect(), ..Default::default() };
        return Ok(asker.reply(call.to, &response));
    }
    let found = find(asker, cx.broker, (call, request.key_type), &request.key);
    let response = FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: found.error_message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..FindCoordinatorResponse::default()
    };
    Ok(asker.reply(call.to, &response))
}

fn find<'a>(asker: &Asker, broker: &Broker, (call, key_type): (&Call<'_>, i8), key: &Text<'a>) -> Coordinator<'a> {
    let (code, message) = match key_type {
        GROUP if asker.may_use_group(broker, key, Using::Seeing).is_err() => {
            (ErrorCode::GROUP_AUTHORIZATION_FAILED, "no permission to use this group")
        }
        GROUP => {
            let (host, port) = asker.address();
            let (key, node_id) = (key.clone(), asker.settings.node_id);
            return Coordinator { key, node_id, host, port, ..Coordinator::default() };
        }
        TRANSACTION => (no_transactions(call.version()), "transactions are not served yet"),
        _ => (ErrorCode::INVALID_REQUEST, "only groups have coordinators here"),
    };
    Coordinator {
        key: key.clone(),
        node_id: -1,
        port: -1,
        error_code: code.0,
        error_message: Some(Text::Borrowed(message)),
        ..Coordinator::default()
    }
}

// A code that the client does not retry: whoever wants transactions fails at once, with our text. librdkafka, which
// asks in the old versions, goes on asking for ever at any code but those of a refused permission.
fn no_transactions(version: i16) -> ErrorCode {
    if version < 4 { ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED } else { ErrorCode::UNSUPPORTED_VERSION }
}
