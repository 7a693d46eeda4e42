//! DescribeLogDirs: the bytes of each partition. There is one folder, and a log has no files of its own in it: its size
//! is that of its units, wherever they lie.

use std::collections::BTreeMap;

use broker::Cx;
use model::{LogId, ReadError};

use super::asker::log_of;
use super::{Asker, Row, Using, row_of};
use crate::call::Call;
use crate::pending::Answer;
use crate::wire::{Text, messages};

pub(crate) static ROW: Row = row_of((35, "DescribeLogDirs"), 1..=4, 2, handle);

messages! {
    DescribeLogDirsRequest<'a> {
        topics: Option<Vec<AskedTopic<'a>>>, 0+ null 0;
    }
    AskedTopic<'a> {
        topic: Text<'a>, 0+;
        partitions: Vec<i32>, 0+;
    }
    DescribeLogDirsResponse<'a> {
        throttle_time_ms: i32, 0+;
        error_code: i16, 3+;
        results: Vec<LogDir<'a>>, 0+;
    }
    LogDir<'a> {
        error_code: i16, 0+;
        log_dir: Text<'a>, 0+;
        topics: Vec<SizedTopic<'a>>, 0+;
        total_bytes: i64, 4+ or -1;
        usable_bytes: i64, 4+ or -1;
    }
    SizedTopic<'a> {
        name: Text<'a>, 0+;
        partitions: Vec<SizedPartition>, 0+;
    }
    SizedPartition {
        partition_index: i32, 0+;
        partition_size: i64, 0+;
        offset_lag: i64, 0+;
        is_future_key: bool, 0+;
    }
}

/// The one folder. Where it lies on the machine is not for clients to know.
const LOG_DIR: &str = "/data";

fn handle(asker: &mut Asker, cx: &mut Cx<'_>, call: &Call<'_>) -> Result<Answer, ReadError> {
    let request: DescribeLogDirsRequest<'_> = call.read_body()?;
    let mut topics = Vec::new();
    if let Some(asked) = &request.topics {
        let mut by_name: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for topic in asked {
            by_name.entry(&topic.topic).or_default().extend(&topic.partitions);
        }
        for (name, mut partitions) in by_name {
            partitions.sort_unstable();
            partitions.dedup();
            // What does not exist is left out.
            if let Ok(info) = asker.topic(cx.broker, name, Using::Seeing) {
                let logs = partitions.iter().filter_map(|index| Some((*index, log_of(info, *index).ok()?)));
                topics.push(sized(cx, name, logs));
            }
        }
    } else {
        for info in asker.topics(cx.broker) {
            let logs = info.partitions.iter().enumerate().map(|(index, log)| (index as i32, *log));
            topics.push(sized(cx, &info.name, logs));
        }
    }
    let dir = LogDir { log_dir: Text::Borrowed(LOG_DIR), topics, ..LogDir::default() };
    let response = DescribeLogDirsResponse { results: vec![dir], ..DescribeLogDirsResponse::default() };
    Ok(asker.reply(call.to, &response))
}

fn sized(cx: &Cx<'_>, name: &str, logs: impl Iterator<Item = (i32, LogId)>) -> SizedTopic<'static> {
    let size = |(partition_index, log)| {
        let segments = cx.broker.segments(log).unwrap_or_default();
        let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let partition_size = i64::try_from(bytes).unwrap_or(i64::MAX);
        SizedPartition { partition_index, partition_size, ..SizedPartition::default() }
    };
    SizedTopic { name: Text::Owned(name.to_owned()), partitions: logs.map(size).collect() }
}
