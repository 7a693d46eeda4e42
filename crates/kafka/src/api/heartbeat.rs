//! Heartbeat: a member of a group is still there.

use broker::Cx;
use broker::group::MemberRef;
use model::ReadError;

use super::{Asker, READ, Row, row_of};
use crate::call::Call;
use crate::errors::code_of;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((12, "Heartbeat"), 0..=4, 4, handle);

messages! {
    HeartbeatRequest<'a> {
        group_id: Text<'a>, 0+;
        generation_id: i32, 0+;
        member_id: Text<'a>, 0+;
        group_instance_id: Option<Text<'a>>, 3+ null 3;
    }
    HeartbeatResponse {
        throttle_time_ms: i32, 1+;
        error_code: i16, 0+;
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: HeartbeatRequest<'_> = call.read_body()?;
    let who = MemberRef {
        group: &request.group_id,
        member: &request.member_id,
        instance: request.group_instance_id.as_deref(),
        generation: request.generation_id,
    };
    let allowed = asker.may_use_group(cx.broker, &request.group_id, READ);
    let error_code = match allowed {
        Ok(()) => code_of(&cx.broker.heartbeat(who, cx.now)).0,
        Err(code) => code.0,
    };
    Ok(asker.reply(call.to, &HeartbeatResponse { error_code, ..HeartbeatResponse::default() }))
}
