//! DescribeCluster: the cluster's id and its nodes, of which there is one.

use broker::Cx;
use model::ReadError;

use super::asker::operations;
use super::{Asker, Row, row_of};
use crate::call::Call;
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((60, "DescribeCluster"), 0..=2, 0, handle);

messages! {
    DescribeClusterRequest {
        include_cluster_authorized_operations: bool, 0+;
        endpoint_type: i8, 1+ or 1;
        include_fenced_brokers: bool, 2+;
    }
    DescribeClusterResponse<'a> {
        throttle_time_ms: i32, 0+;
        error_code: i16, 0+;
        error_message: Option<Text<'a>>, 0+ null 0;
        endpoint_type: i8, 1+ or 1;
        cluster_id: Text<'a>, 0+;
        controller_id: i32, 0+ or -1;
        brokers: Vec<DescribedBroker<'a>>, 0+;
        cluster_authorized_operations: i32, 0+ or i32::MIN;
    }
    DescribedBroker<'a> {
        broker_id: i32, 0+;
        host: Text<'a>, 0+;
        port: i32, 0+;
        rack: Option<Text<'a>>, 0+ null 0;
        is_fenced: bool, 2+;
    }
}

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: DescribeClusterRequest = call.read_body()?;
    let refused = match request.endpoint_type {
        BROKERS => None,
        CONTROLLERS => Some((ErrorCode::MISMATCHED_ENDPOINT_TYPE, "this is an endpoint of brokers")),
        _ => Some((ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, "endpoints are 1 (brokers) or 2 (controllers)")),
    };
    if let Some((code, message)) = refused {
        let response = DescribeClusterResponse {
            error_code: code.0,
            error_message: Some(Text::Borrowed(message)),
            ..DescribeClusterResponse::default()
        };
        return Ok(asker.reply(call.to, &response));
    }
    let (host, port) = asker.address();
    let node = asker.settings.node_id;
    let response = DescribeClusterResponse {
        cluster_id: Text::Borrowed(cx.broker.cluster_id()),
        controller_id: node,
        brokers: vec![DescribedBroker { broker_id: node, host, port, ..DescribedBroker::default() }],
        cluster_authorized_operations: match request.include_cluster_authorized_operations {
            true => operations::CLUSTER,
            false => operations::NOT_ASKED,
        },
        ..DescribeClusterResponse::default()
    };
    Ok(asker.reply(call.to, &response))
}
