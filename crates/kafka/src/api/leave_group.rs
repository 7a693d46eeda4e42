//! LeaveGroup: members go; several at once from version 3 on, static ones named by their instance alone.

use broker::Cx;
use broker::group::{GroupError, MemberRef};
use model::ReadError;

use super::{Asker, READ, Row, row_of};
use crate::call::Call;
use crate::errors::{ErrorCode, code_of};
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((13, "LeaveGroup"), 0..=5, 4, handle);

messages! {
    LeaveGroupRequest<'a> {
        group_id: Text<'a>, 0+;
        member_id: Text<'a>, 0-2;
        members: Vec<MemberIdentity<'a>>, 3+;
    }
    MemberIdentity<'a> {
        member_id: Text<'a>, 3+;
        group_instance_id: Option<Text<'a>>, 3+ null 3;
        reason: Option<Text<'a>>, 5+ null 5;
    }
    LeaveGroupResponse<'a> {
        throttle_time_ms: i32, 1+;
        error_code: i16, 0+;
        members: Vec<LeftMember<'a>>, 3+;
    }
    LeftMember<'a> {
        member_id: Text<'a>, 3+;
        group_instance_id: Option<Text<'a>>, 3+ null 3;
        error_code: i16, 3+;
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: LeaveGroupRequest<'_> = call.read_body()?;
    if let Err(code) = asker.may_use_group(cx.broker, &request.group_id, READ) {
        return Ok(asker.reply(call.to, &LeaveGroupResponse { error_code: code.0, ..LeaveGroupResponse::default() }));
    }
    let mut leave = |member: &str, instance: Option<&str>| -> Result<(), GroupError> {
        let who = MemberRef { group: &request.group_id, member, instance, generation: -1 };
        cx.broker.leave(who, cx.now)
    };
    let response = if request.group_id.is_empty() {
        LeaveGroupResponse { error_code: ErrorCode::INVALID_GROUP_ID.0, ..LeaveGroupResponse::default() }
    } else if call.version() < 3 {
        let error_code = code_of(&leave(&request.member_id, None)).0;
        LeaveGroupResponse { error_code, ..LeaveGroupResponse::default() }
    } else {
        let members = request.members.iter().map(|one| LeftMember {
            member_id: one.member_id.clone(),
            group_instance_id: one.group_instance_id.clone(),
            error_code: code_of(&leave(&one.member_id, one.group_instance_id.as_deref())).0,
        });
        LeaveGroupResponse { members: members.collect(), ..LeaveGroupResponse::default() }
    };
    Ok(asker.reply(call.to, &response))
}
