//! ApiVersions: what is served. The one request that is answered whatever its version.

use std::sync::LazyLock;

use broker::Cx;
use model::ReadError;

use super::{Asker, ROWS, Row, row_of};
use crate::call::{Call, CallHead, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Sink, Text, messages};

/// The API's key.
pub(crate) const API_VERSIONS: i16 = 18;

pub(crate) static ROW: Row = row_of((API_VERSIONS, "ApiVersions"), 0..=5, 3, handle);

/// So much of a library's name and version operators are shown: the client says how long they are.
const SOFTWARE_CHARS_KEPT: usize = 100;

messages! {
    ApiVersionsRequest<'a> {
        client_software_name: Text<'a>, 3+;
        client_software_version: Text<'a>, 3+;
        cluster_id: Option<Text<'a>>, 5+ null 5;
        node_id: i32, 5+ or -1;
    }
    ApiVersionsResponse<'a> {
        error_code: i16, 0+;
        api_keys: Vec<ApiVersion>, 0+;
        throttle_time_ms: i32, 1+;
        // None of either: whoever finds group.version or transaction.version here leaves the protocols that we serve.
        supported_features: Vec<SupportedFeature<'a>>, 3+ tag 0;
        finalized_features_epoch: i64, 3+ tag 1 or -1;
        finalized_features: Vec<FinalizedFeature<'a>>, 3+ tag 2;
        zk_migration_ready: bool, 3+ tag 3;
    }
    ApiVersion {
        api_key: i16, 0+;
        min_version: i16, 0+;
        max_version: i16, 0+;
    }
    SupportedFeature<'a> {
        name: Text<'a>, 3+;
        min_version: i16, 3+;
        max_version: i16, 3+;
    }
    FinalizedFeature<'a> {
        name: Text<'a>, 3+;
        max_version_level: i16, 3+;
        min_version_level: i16, 3+;
    }
}

static SHOWN: LazyLock<Vec<ApiVersion>> = LazyLock::new(|| {
    let shown = ROWS.iter().map(|row| ApiVersion {
        api_key: row.api,
        min_version: *row.shown.start(),
        max_version: *row.shown.end(),
    });
    shown.collect()
});

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: ApiVersionsRequest<'_> = call.read_body()?;
    let error = check(asker, cx, call.version(), &request);
    if error.is_none() && call.version() >= 3 {
        let (name, version) = (&request.client_software_name, &request.client_software_version);
        asker.software = Some(Box::new((kept(name), kept(version))));
    }
    let api_keys = if error.is_none() { SHOWN.clone() } else { Vec::new() };
    let response = ApiVersionsResponse { error_code: error.0, api_keys, ..ApiVersionsResponse::default() };
    Ok(asker.reply(call.to, &response))
}

/// What is remembered of it, for as long as the connection lasts.
fn kept(software: &str) -> String {
    software.chars().take(SOFTWARE_CHARS_KEPT).collect()
}

fn check(asker: &Asker, cx: &Cx<'_>, version: i16, request: &ApiVersionsRequest<'_>) -> ErrorCode {
    if version >= 3 && !(is_software(&request.client_software_name) && is_software(&request.client_software_version)) {
        return ErrorCode::INVALID_REQUEST;
    }
    // A client that believes to talk to another cluster or node starts over from its bootstrap list (KIP-1242).
    let other_cluster = request.cluster_id.as_deref().is_some_and(|id| id != cx.broker.cluster_id());
    let other_node = request.node_id >= 0 && request.node_id != asker.settings.node_id;
    if other_cluster || other_node { ErrorCode::REBOOTSTRAP_REQUIRED } else { ErrorCode::NONE }
}

/// Letters, digits, dots and dashes, the first and last neither dot nor dash (KIP-511).
fn is_software(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// Answers a request in a version that we do not serve: only this API has an answer for that, in version 0 with the
/// table, so that the client can ask again.
pub(crate) fn answer_unserved(head: CallHead) -> Option<(ReplyTo, Sink)> {
    if head.api != API_VERSIONS {
        return None;
    }
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION.0,
        api_keys: SHOWN.clone(),
        ..ApiVersionsResponse::default()
    };
    let to = ReplyTo::in_version_0(head);
    Some((to, to.encode(&response, Vec::new())))
}
