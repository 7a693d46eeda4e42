//! ListGroups: all groups, filtered by state and by kind. All groups here are of the classic kind.

use broker::Cx;
use model::ReadError;

use super::describe_groups::state_name;
use super::{Asker, Row, Using, row_of};
use crate::call::Call;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((16, "ListGroups"), 0..=5, 3, handle);

messages! {
    ListGroupsRequest<'a> {
        states_filter: Vec<Text<'a>>, 4+;
        types_filter: Vec<Text<'a>>, 5+;
    }
    ListGroupsResponse<'a> {
        throttle_time_ms: i32, 1+;
        error_code: i16, 0+;
        groups: Vec<ListedGroup<'a>>, 0+;
    }
    ListedGroup<'a> {
        group_id: Text<'a>, 0+;
        protocol_type: Text<'a>, 0+;
        group_state: Text<'a>, 4+;
        group_type: Text<'a>, 5+;
    }
}

const CLASSIC: &str = "classic";

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: ListGroupsRequest<'_> = call.read_body()?;
    let passes = |filter: &[Text<'_>], value: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(value))
    };
    let groups = match passes(&request.types_filter, CLASSIC) {
        true => cx.broker.groups(),
        false => Vec::new(),
    };
    let groups = groups.into_iter().filter(|group| passes(&request.states_filter, state_name(group.state)));
    let groups = groups.filter(|group| asker.may_use_group(cx.broker, &group.group, Using::Seeing).is_ok());
    let listed = groups.map(|group| ListedGroup {
        group_id: Text::Owned(group.group.to_string()),
        protocol_type: Text::Owned(group.protocol_type),
        group_state: Text::Borrowed(state_name(group.state)),
        group_type: Text::Borrowed(CLASSIC),
    });
    let response = ListGroupsResponse { groups: listed.collect(), ..ListGroupsResponse::default() };
    Ok(asker.reply(call.to, &response))
}
