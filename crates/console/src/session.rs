//! One HTTP connection: reads a request, lets its user log in, answers, reads the next. One request at a time, so that
//! answers leave in order however many requests arrive together.

use std::sync::{Arc, Mutex};

use broker::user::{LoginError, Principal};
use broker::{BrokerError, CallId, Cx, Event, Input, Lsn, Peer, Session};
use model::{Mono, Now};

use crate::api::{self, Access, Answer, Call, Found, Until};
use crate::auth::{self, Credentials};
use crate::counters::Counters;
use crate::http::{Parsed, Request, Response, parse};
use crate::limits::{IDLE_TIME_MAX, LOGIN_KEPT, REQUEST_TIME_MAX};
use crate::management::{self, Asker, Sampler};
use crate::refusal::Refusal;
use crate::work::{Step, Work};

/// An HTTP session.
pub struct HttpSession {
    peer: Peer,
    counters: Arc<Counters>,
    sampler: Arc<Mutex<Sampler>>,
    /// Whether something of the core is the session's, to be given back.
    has_used: bool,
    state: State,
    calls: u64,
    /// Who logged in last on this connection, until when that is believed, and with which state of users and
    /// permissions it was found.
    login: Option<(Credentials, Principal, Mono, u64)>,
    deadline: Option<Mono>,
    /// When long work goes on, if it waits for nothing: after the running turn, or the driver would not end it.
    work_at: Option<Mono>,
    /// The first bytes of a request are there; the rest is not.
    partial: bool,
    /// The client was told to go on with its body.
    told_continue: bool,
    closing: bool,
    /// The server stops: the next response is the last.
    stopping: bool,
}

enum State {
    /// Reads requests.
    Reading,
    /// Waits for the password to be checked.
    Login(CallId, Credentials, Box<Request>),
    /// Waits until a user's password is hashed and stored.
    Storing(CallId, Response, Ending),
    /// Waits until what was changed is on disk.
    Held(Lsn, Response, Ending),
    /// Does what takes more than one turn.
    Working(CallId, Box<dyn Work>, Ending),
}

/// How a response ends.
#[derive(Clone, Copy)]
struct Ending {
    keep_alive: bool,
    with_body: bool,
}

impl HttpSession {
    /// A session for a client just accepted.
    pub fn new(peer: Peer, counters: Arc<Counters>, sampler: Arc<Mutex<Sampler>>) -> HttpSession {
        HttpSession {
            peer,
            counters,
            sampler,
            has_used: false,
            state: State::Reading,
            calls: 0,
            login: None,
            // Due at once: the first tick says what time it is, which nobody knows here yet.
            deadline: Some(Mono::default()),
            work_at: None,
            partial: false,
            told_continue: false,
            closing: false,
            stopping: false,
        }
    }

    fn bytes(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        if !self.wants_input() {
            return 0;
        }
        match parse(bytes) {
            Parsed::Partial(waits) => {
                if !self.partial {
                    self.deadline = Some(cx.now.mono.plus(REQUEST_TIME_MAX));
                }
                self.partial = true;
                if waits && !std::mem::replace(&mut self.told_continue, true) {
                    cx.out.buffer().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                0
            }
            Parsed::Refused(refusal) => {
                self.send(&Response::from(&refusal), Ending { keep_alive: false, with_body: true }, cx);
                bytes.len()
            }
            Parsed::Request(request, count) => {
                (self.partial, self.told_continue) = (false, false);
                self.deadline = None;
                self.request(request, cx);
                count
            }
        }
    }

    /// Finds who asks, then serves.
    fn request(&mut self, request: Request, cx: &mut Cx<'_>) {
        let changes = !matches!(request.method.as_str(), "GET" | "HEAD");
        if changes && request.is_foreign {
            let reason = "the request comes from a page of another site: send it to this server from its own address";
            return self.refuse(&Refusal::new(403, "forbidden", reason), &request, cx);
        }
        if !management::serves(&request.path) && api::find(&request).access() == Access::Open {
            return self.serve(&request, None, cx);
        }
        let Some(credentials) = request.authorization.as_deref().and_then(auth::parse) else {
            let reason = "log in with HTTP Basic authentication; a fresh server knows guest:guest, from this machine";
            return self.refuse(&Refusal::new(401, "unauthorized", reason), &request, cx);
        };
        if let Some((known, principal, until, version)) = &self.login
            && *known == credentials
            && cx.now.mono < *until
            && *version == cx.broker.access_version()
        {
            let principal = principal.clone();
            return self.serve(&request, Some(&principal), cx);
        }
        self.calls += 1;
        let call = CallId(self.calls);
        let from = self.peer.remote.ip().to_canonical();
        cx.broker.login(self.peer.session, call, &credentials.user, &credentials.password, from);
        self.state = State::Login(call, credentials, Box::new(request));
    }

    fn logged_in(&mut self, call: CallId, outcome: Result<Principal, LoginError>, cx: &mut Cx<'_>) {
        let (credentials, request) = match std::mem::replace(&mut self.state, State::Reading) {
            State::Login(waiting, credentials, request) if waiting == call => (credentials, request),
            other => {
                self.state = other;
                return;
            }
        };
        match outcome {
            Ok(principal) => {
                let until = cx.now.mono.plus(LOGIN_KEPT);
                self.login = Some((credentials, principal.clone(), until, cx.broker.access_version()));
                self.serve(&request, Some(&principal), cx);
            }
            // RabbitMQ's words and rule: the default user may only come from this machine.
            Err(why) => self.refuse(&Refusal::new(401, "unauthorized", why.to_string()), &request, cx),
        }
    }

    fn serve(&mut self, request: &Request, principal: Option<&Principal>, cx: &mut Cx<'_>) {
        let ending = ending(request);
        if management::serves(&request.path) {
            return self.manage(request, principal, cx);
        }
        let answer = match api::find(request) {
            Found::Route(route, parameters) => {
                if let Err(refusal) = route.access.check(principal) {
                    return self.refuse(&refusal, request, cx);
                }
                // Whatever a page of another site can send without asking first is not this.
                if !request.body.is_empty() && !request.is_json {
                    let reason = "a body must be sent with Content-Type: application/json";
                    return self.refuse(&Refusal::new(415, "unsupported_media_type", reason), request, cx);
                }
                self.calls += 1;
                self.has_used |= !matches!(request.method.as_str(), "GET" | "HEAD");
                let mut call = Call {
                    broker: cx.broker,
                    now: cx.now,
                    session: self.peer.session,
                    principal,
                    call: CallId(self.calls),
                    counters: &self.counters,
                    parameters,
                    query: &request.query,
                    body: &request.body,
                };
                (route.handle)(&mut call)
            }
            Found::OtherMethods(allow) => {
                let reason = format!("{} {} is not served; {allow} is", request.method, request.path);
                let mut response = Response::from(&Refusal::new(405, "method_not_allowed", reason));
                response.headers.push(("Allow", allow));
                return self.send(&response, ending, cx);
            }
            Found::Nothing => Err(Refusal::not_found(format!("nothing is served at {}", request.path))),
        };
        self.answered(answer, ending, cx);
    }

    /// A call of the management API.
    fn manage(&mut self, request: &Request, principal: Option<&Principal>, cx: &mut Cx<'_>) {
        let ending = ending(request);
        let (route, parameters) = match management::find(request) {
            management::Found::Route(route, parameters) => (route, parameters),
            management::Found::OtherMethods(allow) => {
                let mut response = Response::json(405, &serde_json::Value::Null);
                response.headers.push(("Allow", allow));
                return self.send(&response, ending, cx);
            }
            management::Found::Nothing => return self.refuse(&management::missing(), request, cx),
        };
        let Some(principal) = principal else { return };
        if let Err(refusal) = route.level.check(principal) {
            return self.refuse(&refusal, request, cx);
        }
        if !request.body.is_empty() && !request.is_json {
            let reason = "a body must be sent with Content-Type: application/json";
            return self.refuse(&Refusal::new(415, "unsupported_media_type", reason), request, cx);
        }
        self.calls += 1;
        self.has_used |= !matches!(request.method.as_str(), "GET" | "HEAD");
        let asker = Asker { principal: principal.clone(), reason: request.reason.clone() };
        let mut call = management::Call {
            broker: cx.broker,
            now: cx.now,
            session: self.peer.session,
            call: CallId(self.calls),
            counters: &self.counters,
            sampler: &self.sampler,
            asker: &asker,
            parameters,
            query: management::Query::read(&request.query),
            body: &request.body,
        };
        let answer = (route.handle)(&mut call);
        self.answered(answer, ending, cx);
    }

    fn answered(&mut self, answer: api::Handled, ending: Ending, cx: &mut Cx<'_>) {
        let Answer { response, until } = match answer {
            Ok(answer) => answer,
            Err(refusal) => return self.send(&Response::from(&refusal), ending, cx),
        };
        match until {
            Until::Synced(lsn) => self.hold(lsn, response, ending, cx),
            Until::Stored(call) => self.state = State::Storing(call, response, ending),
            Until::Worked(call, work) => {
                self.state = State::Working(call, work, ending);
                self.work_on(cx);
            }
        }
    }

    /// The next part of long work.
    fn work_on(&mut self, cx: &mut Cx<'_>) {
        let (call, mut work, ending) = match std::mem::replace(&mut self.state, State::Reading) {
            State::Working(call, work, ending) => (call, work, ending),
            other => {
                self.state = other;
                return;
            }
        };
        match work.step(cx.broker, (self.peer.session, call), cx.now) {
            Ok(Step::Done(response, lsn)) => self.hold(lsn, response, ending, cx),
            Ok(step) => {
                self.work_at = matches!(step, Step::NextTurn).then_some(Mono(cx.now.mono.0 + 1));
                self.state = State::Working(call, work, ending);
            }
            Err(refusal) => self.send(&Response::from(&refusal), ending, cx),
        }
    }

    /// What long work has asked for is there.
    fn get_on(&mut self, ready: CallId, cx: &mut Cx<'_>) {
        if matches!(self.state, State::Working(call, ..) if call == ready) {
            self.work_on(cx);
        }
    }

    fn stored(&mut self, call: CallId, outcome: Result<Lsn, BrokerError>, cx: &mut Cx<'_>) {
        match std::mem::replace(&mut self.state, State::Reading) {
            State::Storing(waiting, response, ending) if waiting == call => match outcome {
                Ok(lsn) => self.hold(lsn, response, ending, cx),
                Err(why) => self.send(&Response::from(&Refusal::from(why)), ending, cx),
            },
            other => self.state = other,
        }
    }

    /// Sends the response once everything up to `lsn` is on disk: now, if it is.
    fn hold(&mut self, lsn: Lsn, response: Response, ending: Ending, cx: &mut Cx<'_>) {
        self.state = State::Held(lsn, response, ending);
        self.progress(cx);
    }

    fn progress(&mut self, cx: &mut Cx<'_>) {
        let State::Held(lsn, response, ending) = &self.state else { return };
        let ending = *ending;
        let response = if cx.broker.progress().synced >= *lsn {
            response.clone()
        } else if let Some(why) = cx.broker.failure() {
            Response::from(&Refusal::new(503, "unavailable", why.to_string()))
        } else {
            return;
        };
        self.state = State::Reading;
        self.send(&response, ending, cx);
    }

    fn refuse(&mut self, refusal: &Refusal, request: &Request, cx: &mut Cx<'_>) {
        self.send(&Response::from(refusal), ending(request), cx);
    }

    fn send(&mut self, response: &Response, ending: Ending, cx: &mut Cx<'_>) {
        let keep_alive = ending.keep_alive && !self.stopping;
        response.write(keep_alive, ending.with_body, cx.out.buffer());
        self.idle(cx.now);
        if !keep_alive {
            self.close(cx);
        }
    }

    fn idle(&mut self, now: Now) {
        self.partial = false;
        self.deadline = Some(now.mono.plus(IDLE_TIME_MAX));
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.closing = true;
        self.deadline = None;
        cx.out.close();
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        match self.deadline {
            Some(at) if at == Mono::default() => return self.idle(cx.now),
            Some(at) if at <= cx.now.mono => {}
            _ => return,
        }
        if self.partial {
            let refusal = Refusal::new(408, "timeout", "the request did not arrive in time");
            Response::from(&refusal).write(false, true, cx.out.buffer());
        }
        self.close(cx);
    }
}

fn ending(request: &Request) -> Ending {
    Ending { keep_alive: request.keep_alive, with_body: request.method != "HEAD" }
}

impl Session for HttpSession {
    fn handle(&mut self, input: Input<'_>, cx: &mut Cx<'_>) -> usize {
        match input {
            Input::Bytes(bytes) => return self.bytes(bytes, cx),
            Input::Event(Event::Login(call, outcome)) => self.logged_in(call, outcome, cx),
            Input::Event(Event::UserStored(call, outcome)) => self.stored(call, outcome, cx),
            Input::Progress => self.progress(cx),
            Input::Event(Event::GetReady(call)) => self.get_on(call, cx),
            Input::Tick if matches!(self.state, State::Working(..)) => {
                if self.work_at.is_some_and(|at| at <= cx.now.mono) {
                    self.work_on(cx);
                }
            }
            Input::Tick => self.tick(cx),
            // What was got and not settled goes back.
            Input::Closed if self.has_used => cx.broker.session_closed(self.peer.session, cx.now),
            Input::Stopping if matches!(self.state, State::Reading) => self.close(cx),
            Input::Stopping => self.stopping = true,
            Input::Event(_) | Input::Room | Input::Closed => {}
        }
        0
    }

    fn deadline(&self) -> Option<Mono> {
        // Work goes on in the next turn, whatever else happens.
        if matches!(self.state, State::Working(..)) { self.work_at } else { self.deadline }
    }

    fn wants_input(&self) -> bool {
        matches!(self.state, State::Reading) && !self.closing
    }

    fn awaits_progress(&self) -> bool {
        matches!(self.state, State::Held(..))
    }

    fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Reading => 0,
            State::Login(_, _, request) => request.memory_bytes(),
            State::Storing(_, response, _) | State::Held(_, response, _) => response.body.capacity(),
            State::Working(_, work, _) => work.memory_bytes(),
        }
    }
}
