//! DeleteGroups: groups without members go, with all that they have committed.

use broker::{Cx, SyncPolicy};
use model::ReadError;

use super::asker::once;
use super::{Asker, CONFIGURE, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, messages};

pub(crate) static ROW: Row = row_of((42, "DeleteGroups"), 0..=2, 2, handle);

messages! {
    DeleteGroupsRequest<'a> {
        groups_names: Vec<Text<'a>>, 0+;
    }
    DeleteGroupsResponse<'a> {
        throttle_time_ms: i32, 0+;
        results: Vec<DeletedGroup<'a>>, 0+;
    }
    DeletedGroup<'a> {
        group_id: Text<'a>, 0+;
        error_code: i16, 0+;
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: DeleteGroupsRequest<'_> = call.read_body()?;
    let mut stored = None;
    let mut delete = |group: &str| {
        asker.may_use_group(cx.broker, group, CONFIGURE)?;
        stored = Some(cx.broker.delete_group(group, cx.now).map_err(|error| ErrorCode::from(&error))?);
        Ok(())
    };
    // As the real broker: what is named twice is answered once.
    let results = once(&request.groups_names, |group| &**group).map(|group| {
        let code = delete(group).err().unwrap_or(ErrorCode::NONE);
        DeletedGroup { group_id: group.clone(), error_code: code.0 }
    });
    let response = DeleteGroupsResponse { results: results.collect(), ..DeleteGroupsResponse::default() };
    let gate = stored.map(|lsn| Gate::of(SyncPolicy::None, lsn));
    Ok(asker.reply_gated(call.to, &response, gate, fail))
}

/// The journal failed before it was stored that they are gone.
fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: DeleteGroupsResponse<'_> = to.decode(frame)?;
    for group in &mut response.results {
        if group.error_code == ErrorCode::NONE.0 {
            group.error_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0;
        }
    }
    Some(to.encode(&response, Vec::new()))
}
