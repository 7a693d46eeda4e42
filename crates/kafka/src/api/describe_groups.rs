//! DescribeGroups: groups as tools see them.

use broker::Cx;
use broker::group::{GroupInfo, GroupState, MemberInfo};
use model::ReadError;

use super::asker::{once, operations};
use super::{Asker, Row, Using, row_of};
use crate::call::Call;
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Blob, Text, messages};

pub(crate) static ROW: Row = row_of((15, "DescribeGroups"), 0..=6, 5, handle);

messages! {
    DescribeGroupsRequest<'a> {
        groups: Vec<Text<'a>>, 0+;
        include_authorized_operations: bool, 3+;
    }
    DescribeGroupsResponse<'a> {
        throttle_time_ms: i32, 1+;
        groups: Vec<DescribedGroup<'a>>, 0+;
    }
    DescribedGroup<'a> {
        error_code: i16, 0+;
        error_message: Option<Text<'a>>, 6+ null 6;
        group_id: Text<'a>, 0+;
        group_state: Text<'a>, 0+;
        protocol_type: Text<'a>, 0+;
        protocol_data: Text<'a>, 0+;
        members: Vec<DescribedMember<'a>>, 0+;
        authorized_operations: i32, 3+ or i32::MIN;
    }
    DescribedMember<'a> {
        member_id: Text<'a>, 0+;
        group_instance_id: Option<Text<'a>>, 4+ null 4;
        client_id: Text<'a>, 0+;
        client_host: Text<'a>, 0+;
        member_metadata: Blob<'a>, 0+;
        member_assignment: Blob<'a>, 0+;
    }
}

/// From this version on an unknown group is an error, not a dead group (KIP-1043).
const NOT_FOUND_SINCE: i16 = 6;

/// A state's name on the wire.
pub(crate) fn state_name(state: GroupState) -> &'static str {
    match state {
        GroupState::Empty => "Empty",
        GroupState::PreparingRebalance => "PreparingRebalance",
        GroupState::CompletingRebalance => "CompletingRebalance",
        GroupState::Stable => "Stable",
        GroupState::Dead => "Dead",
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: DescribeGroupsRequest<'_> = call.read_body()?;
    let authorized_operations = match request.include_authorized_operations {
        true => operations::GROUP,
        false => operations::NOT_ASKED,
    };
    let groups = once(&request.groups, |group_id| &**group_id).map(|group_id| {
        if let Err(code) = asker.may_use_group(cx.broker, group_id, Using::Seeing) {
            let group_id = group_id.clone();
            return DescribedGroup { group_id, error_code: code.0, ..DescribedGroup::default() };
        }
        let info = cx.broker.describe_group(group_id);
        let mut described = describe(info, group_id);
        described.authorized_operations = authorized_operations;
        if described.group_state == state_name(GroupState::Dead) && call.version() >= NOT_FOUND_SINCE {
            described.error_code = ErrorCode::GROUP_ID_NOT_FOUND.0;
            described.error_message = Some(Text::Owned(format!("Group {group_id} not found.")));
        }
        described
    });
    let response = DescribeGroupsResponse { groups: groups.collect(), ..DescribeGroupsResponse::default() };
    Ok(asker.reply(call.to, &response))
}

fn describe<'a>(info: GroupInfo, group_id: &Text<'a>) -> DescribedGroup<'a> {
    DescribedGroup {
        group_id: group_id.clone(),
        group_state: Text::Borrowed(state_name(info.state)),
        protocol_type: Text::Owned(info.protocol_type),
        protocol_data: Text::Owned(info.protocol),
        members: info.members.into_iter().map(describe_member).collect(),
        ..DescribedGroup::default()
    }
}

fn describe_member(member: MemberInfo) -> DescribedMember<'static> {
    DescribedMember {
        member_id: Text::Owned(member.member),
        group_instance_id: member.instance.map(Text::Owned),
        client_id: Text::Owned(member.client_id),
        client_host: Text::Owned(member.client_host),
        member_metadata: Blob::Owned(member.metadata.to_vec()),
        member_assignment: Blob::Owned(member.assignment.to_vec()),
    }
}
