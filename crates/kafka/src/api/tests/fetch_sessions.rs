//! Fetch sessions: what has changed is asked for and answered, and nothing else.

use broker::access::Permission;
use broker::user::User;
use model::Name;

use super::super::fetch::{self, FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic};
use super::rig::{Rig, plain_batch};
use crate::Settings;
use crate::wire::Text;

const VERSION: i16 = 12;

/// The error, the session's id, and (partition, error, watermark, bytes) of what is answered.
type Answered = (i16, i32, Vec<(i32, i16, i64, usize)>);

/// A request of a session: (id, epoch), and the partitions of "t" with their offsets.
fn request(session: (i32, i32), partitions: &[(i32, i64)]) -> FetchRequest<'static> {
    let partition = |(partition, fetch_offset): &(i32, i64)| FetchPartition {
        partition: *partition,
        fetch_offset: *fetch_offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let partitions: Vec<FetchPartition> = partitions.iter().map(partition).collect();
    let topics = match partitions.is_empty() {
        true => Vec::new(),
        false => vec![FetchTopic { topic: Text::Borrowed("t"), partitions, ..Default::default() }],
    };
    let (session_id, session_epoch) = session;
    FetchRequest { max_wait_ms: 500, min_bytes: 1, session_id, session_epoch, topics, ..Default::default() }
}

fn answered(rig: &mut Rig, client: usize) -> Answered {
    let reply = rig.reply(client, &fetch::ROW, VERSION);
    let response: FetchResponse<'_> = reply.read();
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| {
        let bytes = partition.records.as_ref().map_or(0, |records| records.0.iter().map(|piece| piece.len()).sum());
        (partition.partition_index, partition.error_code, partition.high_watermark, bytes)
    });
    (response.error_code, response.session_id, partitions.collect())
}

fn ask(rig: &mut Rig, client: usize, asked: &FetchRequest<'_>) -> Answered {
    rig.send(client, &fetch::ROW, VERSION, asked);
    answered(rig, client)
}

/// A session of `client` over all partitions of "t" from the start, and its id.
fn begin(rig: &mut Rig, client: usize, partitions: i32) -> i32 {
    let all: Vec<(i32, i64)> = (0..partitions).map(|at| (at, 0)).collect();
    rig.send(client, &fetch::ROW, VERSION, &request((0, 0), &all));
    rig.wait(500);
    let (error, id, answers) = answered(rig, client);
    assert_eq!((error, answers.len()), (0, partitions as usize), "the first answer is whole");
    assert!(id > 0);
    id
}

#[test]
fn a_session_answers_only_what_has_moved() {
    let mut rig = Rig::new();
    rig.make_topic("t", 3);
    let (consumer, producer) = (rig.connect(), rig.connect());
    let id = begin(&mut rig, consumer, 3);
    rig.send(consumer, &fetch::ROW, VERSION, &request((id, 1), &[]));
    rig.wait(499);
    assert!(rig.try_reply(consumer, &fetch::ROW, VERSION).is_none());
    rig.wait(1);
    assert_eq!(answered(&mut rig, consumer), (0, id, vec![]));
    rig.send(consumer, &fetch::ROW, VERSION, &request((id, 2), &[]));
    let batch = plain_batch(3);
    rig.produce(producer, "t", &batch, -1);
    assert_eq!(answered(&mut rig, consumer), (0, id, vec![(0, 0, 3, batch.len())]));
    // Who does not go on is answered the same again; who does waits again.
    assert_eq!(ask(&mut rig, consumer, &request((id, 3), &[])).2, [(0, 0, 3, batch.len())]);
    rig.send(consumer, &fetch::ROW, VERSION, &request((id, 4), &[(0, 3)]));
    assert!(rig.try_reply(consumer, &fetch::ROW, VERSION).is_none());
    rig.wait(500);
    assert_eq!(answered(&mut rig, consumer), (0, id, vec![]));
}

#[test]
fn a_session_is_refused_when_it_is_not_known_or_out_of_step() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let (client, other) = (rig.connect(), rig.connect());
    let id = begin(&mut rig, client, 1);
    assert_eq!(ask(&mut rig, client, &request((id, 2), &[])), (71, 0, vec![]));
    assert_eq!(ask(&mut rig, client, &request((id ^ 2, 1), &[])).0, 70);
    assert_eq!(ask(&mut rig, other, &request((id, 1), &[])).0, 70, "it belongs to its connection");
    let id = begin(&mut rig, client, 1);
    let last = FetchRequest { max_wait_ms: 0, ..request((id, -1), &[(0, 0)]) };
    assert_eq!(ask(&mut rig, client, &last), (0, 0, vec![(0, 0, 0, 0)]), "it ends, and the answer is whole");
    assert_eq!(ask(&mut rig, client, &request((id, 1), &[])).0, 70);
}

#[test]
fn what_a_session_forgets_or_gains_counts_from_then_on() {
    let mut rig = Rig::new();
    rig.make_topic("t", 2);
    let (consumer, producer) = (rig.connect(), rig.connect());
    let id = begin(&mut rig, consumer, 1);
    let mut forgetting = request((id, 1), &[(1, 0)]);
    forgetting.forgotten_topics_data =
        vec![ForgottenTopic { topic: Text::Borrowed("t"), partitions: vec![0], ..Default::default() }];
    rig.send(consumer, &fetch::ROW, VERSION, &forgetting);
    rig.produce(producer, "t", &plain_batch(1), -1);
    rig.wait(500);
    let told_once = vec![(1, 0, 0, 0)];
    assert_eq!(answered(&mut rig, consumer), (0, id, told_once), "partition 0 is nobody's any more");
    let batch = plain_batch(1);
    assert_eq!(ask(&mut rig, consumer, &request((id, 2), &[(0, 0)])).2, [(0, 0, 1, batch.len())]);
    let beyond = ask(&mut rig, consumer, &request((id, 3), &[(0, 9)]));
    assert_eq!(beyond.2, [(0, 1, -1, 0)], "out of range, and said each time");
    assert_eq!(ask(&mut rig, consumer, &request((id, 4), &[])).2, [(0, 1, -1, 0)]);
}

#[test]
fn a_session_gives_nothing_more_of_what_may_not_be_read_any_more() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    rig.broker.store_user(&User { name: "u".into(), ..User::default() }).unwrap();
    let all = || Permission { user: "u".into(), tenant: "/".into(), read: "t".into(), ..Permission::default() };
    rig.broker.put_permission(&all()).unwrap();
    let settings = Settings { user: Some(Name::fixed("u")), ..Settings::default() };
    let (consumer, producer) = (rig.connect_with(settings), rig.connect());
    let id = begin(&mut rig, consumer, 1);
    rig.broker.delete_permission("u", "/").unwrap();
    rig.produce(producer, "t", &plain_batch(1), -1);
    let refused = (0, id, vec![(0, 29, -1, 0)]);
    assert_eq!(ask(&mut rig, consumer, &request((id, 1), &[])), refused);
    assert_eq!(ask(&mut rig, consumer, &request((id, 2), &[])), refused);
    rig.broker.put_permission(&all()).unwrap();
    let (_, _, answers) = ask(&mut rig, consumer, &request((id, 3), &[]));
    assert!(answers[0].1 == 0 && answers[0].3 > 0, "{answers:?}");
}

#[test]
fn a_session_learns_that_its_topic_is_gone_and_back() {
    let mut rig = Rig::new();
    rig.make_topic("t", 1);
    let (consumer, producer) = (rig.connect(), rig.connect());
    let id = begin(&mut rig, consumer, 1);
    rig.send(consumer, &fetch::ROW, VERSION, &request((id, 1), &[]));
    rig.broker.delete_topic("/", "t", rig.now).unwrap();
    rig.pump();
    assert_eq!(answered(&mut rig, consumer).2, [(0, 3, -1, 0)]);
    rig.make_topic("t", 1);
    let batch = plain_batch(2);
    rig.produce(producer, "t", &batch, -1);
    assert_eq!(ask(&mut rig, consumer, &request((id, 2), &[])).2, [(0, 0, 2, batch.len())]);
}

#[test]
fn partitions_of_a_session_take_turns_when_answers_are_small() {
    let mut rig = Rig::new();
    rig.make_topic("t", 3);
    let (consumer, producer) = (rig.connect(), rig.connect());
    let id = begin(&mut rig, consumer, 3);
    let batch = plain_batch(1);
    for partition in 0..3 {
        let mut asked = super::rig::produce_request("t", &batch, -1);
        asked.topics[0].partitions[0].index = partition;
        rig.ask(producer, &super::super::produce::ROW, 9, &asked);
    }
    let mut seen = Vec::new();
    for epoch in 1..=6 {
        let small = FetchRequest { max_bytes: 1, ..request((id, epoch), &[]) };
        let answers = ask(&mut rig, consumer, &small).2;
        seen.extend(answers.iter().filter(|(.., bytes)| *bytes > 0).map(|(partition, ..)| *partition));
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn the_place_of_a_forgotten_partition_is_used_again_without_answering_twice() {
    let mut rig = Rig::new();
    rig.make_topic("t", 3);
    let (consumer, producer) = (rig.connect(), rig.connect());
    let id = begin(&mut rig, consumer, 1);
    let batch = plain_batch(1);
    rig.produce(producer, "t", &batch, -1);
    // It is active when it is forgotten, and two others come in the same request.
    let mut changing = request((id, 1), &[(1, 0), (2, 0)]);
    changing.forgotten_topics_data =
        vec![ForgottenTopic { topic: Text::Borrowed("t"), partitions: vec![0], ..Default::default() }];
    rig.send(consumer, &fetch::ROW, VERSION, &changing);
    rig.wait(500);
    assert_eq!(answered(&mut rig, consumer).2, [(1, 0, 0, 0), (2, 0, 0, 0)]);
    assert_eq!(ask(&mut rig, consumer, &request((id, 2), &[(0, 0)])).2, [(0, 0, 1, batch.len())], "it is back, once");
}
