//! DeleteTopics: by name, and by id from version 6 on.

use broker::{Cx, Lsn, SyncPolicy};
use model::{Name, ReadError};

use super::asker::error_text;
use super::{Asker, CONFIGURE, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, Uuid, messages};

pub(crate) static ROW: Row = row_of((20, "DeleteTopics"), 1..=6, 4, handle);

messages! {
    DeleteTopicsRequest<'a> {
        topics: Vec<DeleteTopic<'a>>, 6+;
        topic_names: Vec<Text<'a>>, 0-5;
        timeout_ms: i32, 0+;
    }
    DeleteTopic<'a> {
        name: Option<Text<'a>>, 6+ null 6;
        topic_id: Uuid, 6+;
    }
    DeleteTopicsResponse<'a> {
        throttle_time_ms: i32, 1+;
        responses: Vec<DeletedTopic<'a>>, 0+;
    }
    DeletedTopic<'a> {
        name: Option<Text<'a>>, 0+ null 6;
        topic_id: Uuid, 6+;
        error_code: i16, 0+;
        error_message: Option<Text<'a>>, 5+ null 5;
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let mut request: DeleteTopicsRequest<'_> = call.read_body()?;
    let by_name = request.topic_names.drain(..).map(|name| DeleteTopic { name: Some(name), topic_id: [0; 16] });
    let asked: Vec<DeleteTopic<'_>> = by_name.chain(request.topics.drain(..)).collect();
    let mut gate = None;
    let mut responses = Vec::with_capacity(asked.len());
    for topic in asked {
        responses.push(delete(asker, cx, topic, &mut gate));
    }
    let response = DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() };
    Ok(asker.reply_gated(call.to, &response, gate.map(|lsn| Gate::of(SyncPolicy::Sync, lsn)), fail))
}

fn delete<'a>(asker: &Asker, cx: &mut Cx<'_>, topic: DeleteTopic<'a>, gate: &mut Option<Lsn>) -> DeletedTopic<'a> {
    let found = match &topic.name {
        Some(_) if topic.topic_id != [0; 16] => Err(ErrorCode::INVALID_REQUEST),
        Some(name) => asker.topic(cx.broker, name, CONFIGURE),
        None => asker.topic_by_id(cx.broker, topic.topic_id, CONFIGURE),
    };
    let found = found.and_then(|info| match info.internal {
        true => Err(ErrorCode::INVALID_REQUEST),
        false => Ok((info.name.clone(), info.id.0)),
    });
    let (name, id): (Name, Uuid) = match found {
        Ok(found) => found,
        Err(code) => {
            let (name, topic_id) = (topic.name, topic.topic_id);
            return DeletedTopic { name, topic_id, error_code: code.0, error_message: None };
        }
    };
    let shown = Some(Text::Owned(name.to_string()));
    match cx.broker.delete_topic(&asker.settings.tenant, &name, cx.now) {
        Ok(lsn) => {
            *gate = (*gate).max(Some(lsn));
            DeletedTopic { name: shown, topic_id: id, ..DeletedTopic::default() }
        }
        Err(error) => DeletedTopic {
            name: shown,
            topic_id: id,
            error_code: ErrorCode::from(&error).0,
            error_message: error_text(&error),
        },
    }
}

fn fail(to: ReplyTo, frame: &[u8]) -> Option<Sink> {
    let mut response: DeleteTopicsResponse<'_> = to.decode(frame)?;
    for topic in response.responses.iter_mut().filter(|topic| topic.error_code == ErrorCode::NONE.0) {
        topic.error_code = ErrorCode::KAFKA_STORAGE_ERROR.0;
    }
    Some(to.encode(&response, Vec::new()))
}
