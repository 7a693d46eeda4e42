//! From the first byte to connection.open-ok: the protocol header, the login, what is agreed, the virtual host. What
//! the fields of these methods mean is in `handshake.rs`. Called by `session.rs` and, for channel 0, by `running.rs`.

use broker::Cx;
use broker::access::{Pass, Role};
use broker::user::{LoginError, Principal};
use model::Name;

use crate::config::CLOSE_WAIT_MAX;
use crate::conn::Done;
use crate::errors::{Code, MethodId, Refusal};
use crate::handshake::{self, Proof};
use crate::presence;
use crate::session::{AmqpSession, Phase};
use crate::wire::frame::{self, PROTOCOL_HEADER};

impl AmqpSession {
    pub(super) fn protocol_header(&mut self, rest: &[u8], cx: &mut Cx<'_>) -> usize {
        let Some(header) = rest.first_chunk::<8>() else {
            // Not even the beginning of it: no need to wait for eight bytes.
            if !PROTOCOL_HEADER.starts_with(rest.get(..4.min(rest.len())).unwrap_or_default()) {
                return self.not_amqp(rest, cx);
            }
            return 0;
        };
        // 0-9 spelled the old way is taken too, as RabbitMQ does.
        if *header != PROTOCOL_HEADER && header != b"AMQP\x01\x01\x00\x09" {
            return self.not_amqp(rest, cx);
        }
        handshake::put_start(cx.out.buffer(), &self.conn.config, cx.broker, self.conn.certificate().is_some());
        self.phase = Phase::StartOk;
        header.len()
    }

    /// The specification: say which protocol is spoken here, then close.
    pub(super) fn not_amqp(&mut self, rest: &[u8], cx: &mut Cx<'_>) -> usize {
        cx.out.buffer().extend_from_slice(&PROTOCOL_HEADER);
        self.cut(cx);
        rest.len()
    }

    /// A method on channel 0, before the connection is open or after.
    pub(crate) fn on_connection_method(&mut self, method: MethodId, fields: &[u8], cx: &mut Cx<'_>) -> Done {
        match (self.phase, method) {
            (Phase::StartOk, (10, 11)) => self.start_ok(fields, cx)?,
            (Phase::TuneOk, (10, 31)) => {
                let tuned = handshake::tune_ok(fields, &self.conn.config)?;
                self.conn.frame_bytes_max = tuned.frame_bytes_max as usize;
                self.conn.channel_count_max = tuned.channel_count_max.into();
                self.heartbeat.start(tuned.heartbeat, cx.now.mono);
                self.presence.heartbeat = tuned.heartbeat;
                self.phase = Phase::Open;
            }
            (Phase::Open, (10, 40)) => {
                self.enter(handshake::open(fields)?, cx)?;
                handshake::put_open_ok(cx.out.buffer());
                presence::announce(&mut self.conn, std::mem::take(&mut self.presence), cx);
                self.phase = Phase::Running;
                self.until = None;
            }
            (Phase::TuneOk | Phase::Open | Phase::Running, (10, 50)) => self.closed_by_client(cx),
            // A password does not expire: what the client says anew is what it said before.
            (Phase::Running, (10, 70)) => frame::put_method(cx.out.buffer(), 0, (10, 71), |_| {}),
            _ => {
                let state = if self.phase == Phase::Running { "running" } else { "opening" };
                let text = format!("unexpected method in connection state {state}");
                return Err(Refusal::new(Code::ChannelError, text));
            }
        }
        Ok(())
    }

    /// The connection chooses its virtual host.
    pub(super) fn enter(&mut self, vhost: Name, cx: &Cx<'_>) -> Done {
        let user = &self.conn.user;
        cx.broker.enter(user, &vhost).map_err(|why| Refusal::no_entry(why, user, &vhost))?;
        self.conn.pass = Pass::new(user, &vhost);
        self.conn.tenant = vhost;
        Ok(())
    }

    pub(super) fn start_ok(&mut self, fields: &[u8], cx: &mut Cx<'_>) -> Done {
        let start = handshake::start_ok(fields, self.conn.certificate().is_some())?;
        self.presence.mechanism = start.mechanism;
        self.presence.properties = start.properties;
        self.failure_close = start.failure_close;
        self.conn.cancel_notify = start.cancel_notify;
        self.conn.blocked_notify = start.blocked_notify;
        let call = self.conn.next_call();
        let (session, from) = (self.conn.session(), self.conn.peer.remote.ip().to_canonical());
        match start.proof {
            Proof::Password(user, password) => cx.broker.login(session, call, &user, &password, from),
            Proof::Certificate => {
                let named = self.conn.certificate().and_then(|shown| self.conn.config.certificate_login.user(shown));
                cx.broker.login_vouched(session, call, &named.unwrap_or_default(), from.is_loopback());
            }
            Proof::None => {
                self.login_failed(cx);
                return Ok(());
            }
        }
        self.phase = Phase::LoggingIn(call);
        Ok(())
    }

    /// The password has been checked, or the certificate's user looked up.
    pub(super) fn login_answered(&mut self, result: Result<Principal, LoginError>, cx: &mut Cx<'_>) {
        match result {
            Ok(principal) => {
                self.conn.impersonator = Role::Impersonator.is_in(&principal.tags);
                self.conn.user = principal.user;
                handshake::put_tune(cx.out.buffer(), &self.conn.config);
                self.phase = Phase::TuneOk;
            }
            Err(error) => {
                let mechanism = &self.presence.mechanism;
                tracing::info!(remote = %self.conn.peer.remote, %mechanism, %error, "login refused");
                self.login_failed(cx);
            }
        }
    }

    /// The client is told only if it said that it understands; else it waits for an end.
    pub(super) fn login_failed(&mut self, cx: &mut Cx<'_>) {
        self.phase = Phase::LoginFailed;
        if self.failure_close {
            let refusal = handshake::refused(&self.presence.mechanism);
            handshake::put_close(cx.out.buffer(), 0, &refusal, &self.conn.tenant);
            self.phase = Phase::Closing;
        }
        self.until = Some(cx.now.mono.plus(CLOSE_WAIT_MAX));
    }
}
