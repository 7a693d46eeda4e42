//! OffsetForLeaderEpoch: where an epoch ended. One node has led everything in epoch 0.

use broker::Cx;
use model::ReadError;

use super::asker::led_log;
use super::{Asker, Row, Using, row_of};
use crate::call::Call;
use crate::errors::ErrorCode;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((23, "OffsetForLeaderEpoch"), 2..=4, 4, handle);

messages! {
    OffsetForLeaderEpochRequest<'a> {
        replica_id: i32, 3+ or -2;
        topics: Vec<EpochTopic<'a>>, 0+;
    }
    EpochTopic<'a> {
        topic: Text<'a>, 0+;
        partitions: Vec<EpochPartition>, 0+;
    }
    EpochPartition {
        partition: i32, 0+;
        current_leader_epoch: i32, 2+ or -1;
        leader_epoch: i32, 0+;
    }
    OffsetForLeaderEpochResponse<'a> {
        throttle_time_ms: i32, 2+;
        topics: Vec<EpochTopicResult<'a>>, 0+;
    }
    EpochTopicResult<'a> {
        topic: Text<'a>, 0+;
        partitions: Vec<EpochEnd>, 0+;
    }
    EpochEnd {
        error_code: i16, 0+;
        partition: i32, 0+;
        leader_epoch: i32, 1+ or -1;
        end_offset: i64, 0+ or -1;
    }
}

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: OffsetForLeaderEpochRequest<'_> = call.read_body()?;
    let topics = request.topics.iter().map(|topic| EpochTopicResult {
        topic: topic.topic.clone(),
        partitions: topic.partitions.iter().map(|partition| find(asker, cx, &topic.topic, partition)).collect(),
    });
    let response = OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() };
    Ok(asker.reply(call.to, &response))
}

fn find(asker: &Asker, cx: &Cx<'_>, topic: &str, asked: &EpochPartition) -> EpochEnd {
    let partition = asked.partition;
    let info = asker.topic(cx.broker, topic, Using::Seeing);
    let log = info.and_then(|info| led_log(info, partition, asked.current_leader_epoch));
    let bounds = log.and_then(|log| cx.broker.bounds(log).map_err(|error| ErrorCode::from(&error)));
    match bounds {
        Ok(bounds) if asked.leader_epoch == 0 => {
            EpochEnd { partition, leader_epoch: 0, end_offset: bounds.end.0 as i64, ..EpochEnd::default() }
        }
        // Never led in that epoch.
        Ok(_) => EpochEnd { partition, ..EpochEnd::default() },
        Err(code) => EpochEnd { partition, error_code: code.0, ..EpochEnd::default() },
    }
}
