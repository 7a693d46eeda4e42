//! One member of a group.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use model::Mono;

use super::desk::Call;
use super::{JoinRequest, JoinedMember, MemberInfo, MemberSnapshot};

/// A member.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its id. Changes when a static member comes back.
    pub(crate) id: String,
    /// A static member's lasting name.
    pub(crate) instance: Option<String>,
    /// The client's own name.
    pub(crate) client_id: String,
    /// Its address.
    pub(crate) client_host: String,
    /// Out after this long without a sign of life.
    pub(crate) session_timeout: Duration,
    /// How long a rebalance waits for it.
    pub(crate) rebalance_timeout: Duration,
    /// Protocols it knows, best first, each once, with its metadata.
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// What it is to do in this generation.
    pub(crate) assignment: Bytes,
    /// Its join that waits for the group to be complete.
    pub(crate) join_call: Option<Call>,
    /// Its sync that waits for the leader's.
    pub(crate) sync_call: Option<Call>,
    /// The client knows its id: it may come back with it.
    pub(crate) knows_id: bool,
    /// When it is out unless it gives a sign of life.
    pub(crate) expires: Mono,
    /// When its timer fires. Invariant: armed ≤ expires.
    pub(crate) armed: Mono,
}

impl Member {
    /// A member as it asks to be let in.
    pub(crate) fn new(id: String, request: JoinRequest, knows_id: bool) -> Member {
        Member {
            id,
            instance: request.instance,
            client_id: request.client_id,
            client_host: request.client_host,
            session_timeout: request.session_timeout,
            rebalance_timeout: request.rebalance_timeout,
            protocols: each_once(request.protocols),
            assignment: Bytes::new(),
            join_call: None,
            sync_call: None,
            knows_id,
            expires: Mono(0),
            armed: Mono(0),
        }
    }

    /// A member as it was before a restart. Of its protocols only the chosen one was stored.
    pub(crate) fn recovered(snapshot: &MemberSnapshot, protocol: &str) -> Member {
        let info = &snapshot.info;
        Member {
            id: info.member.clone(),
            instance: info.instance.clone(),
            client_id: info.client_id.clone(),
            client_host: info.client_host.clone(),
            session_timeout: snapshot.session_timeout,
            rebalance_timeout: snapshot.rebalance_timeout,
            protocols: vec![(protocol.to_owned(), info.metadata.clone())],
            assignment: info.assignment.clone(),
            join_call: None,
            sync_call: None,
            knows_id: true,
            expires: Mono(0),
            armed: Mono(0),
        }
    }

    /// What it says of itself takes about so much.
    pub(crate) fn bytes(&self) -> usize {
        said_bytes(&self.client_id, &self.protocols)
    }

    /// Whether it waits for an answer: such a member is alive.
    pub(crate) fn waits(&self) -> bool {
        self.join_call.is_some() || self.sync_call.is_some()
    }

    /// When it is out if nothing is heard of it after `now`.
    pub(crate) fn expiry(&self, now: Mono) -> Mono {
        now.plus(self.session_timeout.max(Duration::from_millis(1))) // a timer must not fire again at once
    }

    /// Its metadata for `protocol`.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols.iter().find(|(name, _)| name == protocol).map(|(_, data)| data.clone()).unwrap_or_default()
    }

    /// As the leader sees it.
    pub(crate) fn joined(&self, protocol: &str) -> JoinedMember {
        JoinedMember { member: self.id.clone(), instance: self.instance.clone(), metadata: self.metadata(protocol) }
    }

    /// As tools see it. Metadata and assignment mean something only while a protocol is chosen and assigned.
    pub(crate) fn info(&self, protocol: Option<&str>) -> MemberInfo {
        MemberInfo {
            member: self.id.clone(),
            instance: self.instance.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            metadata: protocol.map(|protocol| self.metadata(protocol)).unwrap_or_default(),
            assignment: protocol.map(|_| self.assignment.clone()).unwrap_or_default(),
        }
    }

    /// What of it survives a restart.
    pub(crate) fn snapshot(&self, protocol: &str) -> MemberSnapshot {
        MemberSnapshot {
            info: self.info(Some(protocol)),
            rebalance_timeout: self.rebalance_timeout,
            session_timeout: self.session_timeout,
        }
    }
}

/// What a member says of itself takes about so much.
pub(crate) fn said_bytes(client_id: &str, protocols: &[(String, Bytes)]) -> usize {
    let protocols = protocols.iter().map(|(name, metadata)| size_of::<(String, Bytes)>() + name.len() + metadata.len());
    size_of::<Member>() + client_id.len() + protocols.sum::<usize>()
}

/// A list in which no name occurs twice: the first place counts.
pub(crate) fn each_once(protocols: Vec<(String, Bytes)>) -> Vec<(String, Bytes)> {
    let mut seen = HashSet::new();
    let fresh: Vec<bool> = protocols.iter().map(|(name, _)| seen.insert(name.as_str())).collect();
    drop(seen);
    protocols.into_iter().zip(fresh).filter(|(_, fresh)| *fresh).map(|(protocol, _)| protocol).collect()
}
