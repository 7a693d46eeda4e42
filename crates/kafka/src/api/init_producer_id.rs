//! InitProducerId: an id for an idempotent producer. Transactional producers are turned away at once.

use broker::{Cx, SyncPolicy};
use model::ReadError;

use super::{Asker, Row, row_of};
use crate::call::{Call, ReplyTo};
use crate::errors::ErrorCode;
use crate::pending::{Answer, Gate};
use crate::wire::{Sink, Text, messages};

pub(crate) static ROW: Row = row_of((22, "InitProducerId"), 0..=5, 2, handle);

messages! {
    InitProducerIdRequest<'a> {
        transactional_id: Option<Text<'a>>, 0+ null 0;
        transaction_timeout_ms: i32, 0+;
        producer_id: i64, 3+ or -1;
        producer_epoch: i16, 3+ or -1;
    }
    InitProducerIdResponse {
        throttle_time_ms: i32, 0+;
        error_code: i16, 0+;
        producer_id: i64, 0+ or -1;
        producer_epoch: i16, 0+;
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: InitProducerIdRequest<'_> = call.read_body()?;
    let refused = |code: ErrorCode| InitProducerIdResponse {
        error_code: code.0,
        producer_epoch: -1,
        ..InitProducerIdResponse::default()
    };
    match request.transactional_id.as_deref() {
        None => {}
        Some("") => return Ok(asker.reply(call.to, &refused(ErrorCode::INVALID_REQUEST))),
        // Not retriable for any client: it fails at once instead of trying until its time is over.
        Some(_) => return Ok(asker.reply(call.to, &refused(ErrorCode::UNSUPPORTED_VERSION))),
    }
    let known = request.producer_id >= 0 && request.producer_epoch >= 0;
    if !known && (request.producer_id >= 0 || request.producer_epoch >= 0) {
        return Ok(asker.reply(call.to, &refused(ErrorCode::INVALID_REQUEST)));
    }
    let current = known.then_some((request.producer_id, request.producer_epoch));
    Ok(match cx.broker.init_producer(current) {
        Ok((producer_id, producer_epoch, lsn)) => {
            let response = InitProducerIdResponse { producer_id, producer_epoch, ..InitProducerIdResponse::default() };
            asker.reply_gated(call.to, &response, Some(Gate::of(SyncPolicy::Sync, lsn)), fail)
        }
        Err(error) => asker.reply(call.to, &refused(ErrorCode::from(&error))),
    })
}

fn fail(to: ReplyTo, _frame: &[u8]) -> Option<Sink> {
    let response = InitProducerIdResponse {
        error_code: ErrorCode::KAFKA_STORAGE_ERROR.0,
        producer_epoch: -1,
        ..InitProducerIdResponse::default()
    };
    Some(to.encode(&response, Vec::new()))
}
