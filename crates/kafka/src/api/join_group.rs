//! JoinGroup: into a group, or still in it with another subscription. Answered when the group is complete.

use std::time::Duration;

use broker::Cx;
use broker::group::{GroupError, JoinRequest, Joined};
use bytes::Bytes;
use model::{Name, ReadError};

use super::{Asker, READ, Row, Waiting, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Blob, Text, messages};

pub(crate) static ROW: Row = row_of((11, "JoinGroup"), 0..=9, 6, handle);

messages! {
    JoinGroupRequest<'a> {
        group_id: Text<'a>, 0+;
        session_timeout_ms: i32, 0+;
        rebalance_timeout_ms: i32, 1+ or -1;
        member_id: Text<'a>, 0+;
        group_instance_id: Option<Text<'a>>, 5+ null 5;
        protocol_type: Text<'a>, 0+;
        protocols: Vec<JoinProtocol<'a>>, 0+;
        reason: Option<Text<'a>>, 8+ null 8;
    }
    JoinProtocol<'a> {
        name: Text<'a>, 0+;
        metadata: Blob<'a>, 0+;
    }
    JoinGroupResponse<'a> {
        throttle_time_ms: i32, 2+;
        error_code: i16, 0+;
        generation_id: i32, 0+ or -1;
        protocol_type: Option<Text<'a>>, 7+ null 7;
        protocol_name: Option<Text<'a>>, 0+ null 7;
        leader: Text<'a>, 0+;
        skip_assignment: bool, 9+;
        member_id: Text<'a>, 0+;
        members: Vec<JoinMember<'a>>, 0+;
    }
    JoinMember<'a> {
        member_id: Text<'a>, 0+;
        group_instance_id: Option<Text<'a>>, 5+ null 5;
        metadata: Blob<'a>, 0+;
    }
}

/// From this version on a new dynamic member is given its id first and joins with it, so that one that lost the answer
/// leaves no ghost behind (KIP-394).
const KNOWN_MEMBER_SINCE: i16 = 4;

/// A join under way.
pub(crate) struct Joining {
    member: String,
}

/// The first version that can say that the leader's assignment is not wanted.
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: JoinGroupRequest<'_> = call.read_body()?;
    let joining = Joining { member: request.member_id.to_string() };
    let group = match Name::new(&request.group_id) {
        Ok(group) if !group.is_empty() => group,
        _ => return Ok(answer(asker, call.to, &joining, Err(GroupError::InvalidGroup))),
    };
    if let Err(code) = asker.may_use_group(cx.broker, &group, READ) {
        let member_id = Text::Borrowed(joining.member.as_str());
        let response = JoinGroupResponse { error_code: code.0, member_id, ..JoinGroupResponse::default() };
        return Ok(asker.reply(call.to, &response));
    }
    let session_timeout = millis(request.session_timeout_ms);
    let join = JoinRequest {
        group,
        member: joining.member.clone(),
        instance: request.group_instance_id.map(Text::into_owned),
        client_id: call.client_id.to_owned(),
        client_host: asker.client_host(),
        session_timeout,
        // Version 0 has one time-out for both.
        rebalance_timeout: match request.rebalance_timeout_ms {
            ms if ms < 0 => session_timeout,
            ms => millis(ms),
        },
        protocol_type: request.protocol_type.into_owned(),
        protocols: request.protocols.iter().map(protocol).collect(),
        require_known_member: call.version() >= KNOWN_MEMBER_SINCE,
    };
    let id = asker.calls.next();
    cx.broker.join(asker.peer.session, id, join, cx.now);
    Ok(Answer::Later(id, Waiting::Join(joining)))
}

fn protocol(protocol: &JoinProtocol<'_>) -> (String, Bytes) {
    (protocol.name.to_string(), Bytes::copy_from_slice(&protocol.metadata))
}

fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// The reply to a join.
pub(crate) fn answer(asker: &mut Asker, to: ReplyTo, joining: &Joining, joined: Result<Joined, GroupError>) -> Answer {
    match joined {
        Ok(joined) => {
            // Before version 9 nothing tells the leader that it need not assign: it is told that another one leads.
            let follows = joined.skip_assignment && to.version < SKIP_ASSIGNMENT_SINCE;
            let told = if follows { &[][..] } else { &joined.members[..] };
            let members = told.iter().map(|member| JoinMember {
                member_id: Text::Borrowed(&member.member),
                group_instance_id: member.instance.as_deref().map(Text::Borrowed),
                metadata: Blob::Borrowed(&member.metadata),
            });
            let response = JoinGroupResponse {
                generation_id: joined.generation,
                protocol_type: Some(Text::Borrowed(&joined.protocol_type)),
                protocol_name: Some(Text::Borrowed(&joined.protocol)),
                leader: Text::Borrowed(if follows { "" } else { &joined.leader }),
                skip_assignment: joined.skip_assignment,
                member_id: Text::Borrowed(&joined.member),
                members: members.collect(),
                ..JoinGroupResponse::default()
            };
            asker.reply(to, &response)
        }
        Err(error) => {
            let member_id = match &error {
                GroupError::MemberIdRequired(member) => member,
                _ => &joining.member,
            };
            let response = JoinGroupResponse {
                error_code: ErrorCode::from(&error).0,
                member_id: Text::Borrowed(member_id),
                ..JoinGroupResponse::default()
            };
            asker.reply(to, &response)
        }
    }
}
