//! SyncGroup: the leader hands in who gets what, everybody asks for its own part.

use broker::Cx;
use broker::group::{GroupError, MemberRef, Synced};
use bytes::Bytes;
use model::ReadError;

use super::{Asker, READ, Row, Waiting, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Blob, Text, messages};

pub(crate) static ROW: Row = row_of((14, "SyncGroup"), 0..=5, 4, handle);

messages! {
    SyncGroupRequest<'a> {
        group_id: Text<'a>, 0+;
        generation_id: i32, 0+;
        member_id: Text<'a>, 0+;
        group_instance_id: Option<Text<'a>>, 3+ null 3;
        protocol_type: Option<Text<'a>>, 5+ null 5;
        protocol_name: Option<Text<'a>>, 5+ null 5;
        assignments: Vec<SyncAssignment<'a>>, 0+;
    }
    SyncAssignment<'a> {
        member_id: Text<'a>, 0+;
        assignment: Blob<'a>, 0+;
    }
    SyncGroupResponse<'a> {
        throttle_time_ms: i32, 1+;
        error_code: i16, 0+;
        protocol_type: Option<Text<'a>>, 5+ null 5;
        protocol_name: Option<Text<'a>>, 5+ null 5;
        assignment: Blob<'a>, 0+;
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: SyncGroupRequest<'_> = call.read_body()?;
    if let Err(code) = asker.may_use_group(cx.broker, &request.group_id, READ) {
        return Ok(asker.reply(call.to, &SyncGroupResponse { error_code: code.0, ..SyncGroupResponse::default() }));
    }
    let protocol = match (&request.protocol_type, &request.protocol_name) {
        (Some(kind), Some(name)) => Some((&**kind, &**name)),
        // From version 5 on both must be said.
        _ if call.version() >= 5 => return Ok(answer(asker, call.to, Err(GroupError::InconsistentProtocol))),
        _ => None,
    };
    let who = MemberRef {
        group: &request.group_id,
        member: &request.member_id,
        instance: request.group_instance_id.as_deref(),
        generation: request.generation_id,
    };
    let assignments = request.assignments.iter();
    let assignments = assignments.map(|one| (one.member_id.to_string(), Bytes::copy_from_slice(&one.assignment)));
    let id = asker.calls.next();
    cx.broker.sync(asker.peer.session, id, who, protocol, assignments.collect(), cx.now);
    Ok(Answer::Later(id, Waiting::Sync))
}

/// The reply to a sync.
pub(crate) fn answer(asker: &mut Asker, to: ReplyTo, synced: Result<Synced, GroupError>) -> Answer {
    match synced {
        Ok(synced) => {
            let response = SyncGroupResponse {
                protocol_type: Some(Text::Borrowed(&synced.protocol_type)),
                protocol_name: Some(Text::Borrowed(&synced.protocol)),
                assignment: Blob::Borrowed(&synced.assignment),
                ..SyncGroupResponse::default()
            };
            asker.reply(to, &response)
        }
        Err(error) => {
            let error_code = ErrorCode::from(&error).0;
            asker.reply(to, &SyncGroupResponse { error_code, ..SyncGroupResponse::default() })
        }
    }
}
