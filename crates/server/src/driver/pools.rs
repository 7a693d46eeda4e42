//! The threads that may wait for a disk or burn time: one that syncs, two that read what is cold, two that send what
//! there is much of, two for long work, two for what has time, and two for the handshakes of TLS where there is a door
//! for it.
//! They take jobs from their lane and put outcomes into a channel, ringing the data thread's bell. They know nothing of
//! what a job does.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::handshakes::{Step, Stepped};
use super::lane::Lane as Tasks;
use super::sending::{Carried, Errand};
use broker::{FileRange, Job, JobDone, SessionId};
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use mio::Waker;
use storage::job::Lane;

/// Threads by lane. One for syncs: a second could only wait for the same disk.
const THREADS: [(Lane, &str, usize); 4] =
    [(Lane::Sync, "sync", 1), (Lane::Read, "read", 2), (Lane::Work, "work", 2), (Lane::Idle, "idle", 2)];

/// Threads for handshakes: a signature takes up to a millisecond, and a thousand clients may come again at once.
const HANDSHAKE_THREADS: usize = 2;

/// How much the threads for long work stand back where there are fewer cores than work. It gives them a smaller share,
/// but Linux lets even those who were just woken wait for the end of their time slice, about three milliseconds. So
/// those for what has time have the policy SCHED_IDLE as well, which keeps a core from nobody.
const WORK_NICE: i32 = 10;

/// Threads that send: the sockets take what they are given, the time goes into copying.
const SEND_THREADS: usize = 2;

/// What a thread is to do.
enum Task {
    Job(Job),
    /// Reads what a connection is to send next.
    Fill(SessionId, FileRange),
    /// Sends what a connection has much of.
    Send(SessionId, Box<Errand>),
    /// Goes on with a handshake.
    Handshake(SessionId, Step),
}

/// What came of it.
pub enum Done {
    /// An outcome for the core.
    Job(JobDone),
    /// The bytes of a range for a connection.
    Filled(SessionId, io::Result<Bytes>),
    /// What of it left.
    Sent(SessionId, io::Result<Carried>),
    /// How far a handshake got.
    Handshake(SessionId, Box<Stepped>),
}

/// All threads beside the data thread.
pub struct Pools {
    sync: Arc<Tasks<Task>>,
    read: Arc<Tasks<Task>>,
    work: Arc<Tasks<Task>>,
    idle: Arc<Tasks<Task>>,
    send: Arc<Tasks<Task>>,
    tls: Option<Arc<Tasks<Task>>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
}

impl Pools {
    /// Starts the threads; `bell` is rung for every outcome. Those for handshakes only if there will be some.
    ///
    /// # Errors
    /// The operating system's, when it has no more threads to give.
    pub fn start(bell: &Arc<Waker>, with_tls: bool) -> io::Result<Pools> {
        let (done_in, done) = unbounded();
        let mut threads = Vec::new();
        let mut start = |name: &'static str, count: usize| -> io::Result<Arc<Tasks<Task>>> {
            let lane = Arc::new(Tasks::default());
            for _ in 0..count {
                let (lane, done, bell) = (Arc::clone(&lane), done_in.clone(), Arc::clone(bell));
                let thread = std::thread::Builder::new().name(name.to_owned());
                threads.push(thread.spawn(move || {
                    if name == "work" || name == "idle" {
                        stand_back(name == "idle");
                    }
                    serve(&lane, &done, &bell);
                })?);
            }
            Ok(lane)
        };
        let mut lanes = Vec::new();
        for (_, name, count) in THREADS {
            lanes.push(start(name, count)?);
        }
        let send = start("send", SEND_THREADS)?;
        let tls = if with_tls { Some(start("tls", HANDSHAKE_THREADS)?) } else { None };
        let [sync, read, work, idle] = <[_; 4]>::try_from(lanes).map_err(|_| io::Error::other("four lanes"))?;
        Ok(Pools { sync, read, work, idle, send, tls, done, threads })
    }

    /// Hands a job to its lane.
    pub fn run(&self, job: Job) {
        let lane = match job.lane() {
            Lane::Sync => &self.sync,
            Lane::Read => &self.read,
            Lane::Work => &self.work,
            Lane::Idle => &self.idle,
        };
        lane.push(Task::Job(job));
    }

    /// Reads what a connection is to send next.
    pub fn fill(&self, session: SessionId, range: FileRange) {
        self.read.push(Task::Fill(session, range));
    }

    /// Sends for a connection; what must come from a disk is sent where reading waits.
    pub fn send(&self, session: SessionId, errand: Errand) {
        let lane = if errand.is_cold { &self.read } else { &self.send };
        lane.push(Task::Send(session, Box::new(errand)));
    }

    /// Goes on with a handshake.
    pub fn handshake(&self, session: SessionId, step: Step) {
        if let Some(tls) = &self.tls {
            tls.push(Task::Handshake(session, step));
        }
    }

    /// An outcome, if there is one.
    pub fn done(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    /// Lets the threads end after the jobs they have, and waits for them.
    pub fn join(mut self) {
        self.close();
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join(); // a thread that panicked has ended the process already
        }
    }

    fn close(&self) {
        let lanes = [&self.sync, &self.read, &self.work, &self.idle, &self.send];
        lanes.into_iter().chain(&self.tls).for_each(|lane| lane.close());
    }
}

// On Linux this is of the calling thread alone. Where it is not allowed or not known all goes on without it.
fn stand_back(for_everything: bool) {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy};
        let _ = rustix::process::setpriority_process(None, WORK_NICE);
        if for_everything {
            let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
            let me = thread_priority::thread_native_id();
            let _ = thread_priority::set_thread_priority_and_policy(me, ThreadPriority::Min, idle);
        }
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.close();
    }
}

fn serve(tasks: &Tasks<Task>, done: &Sender<Done>, bell: &Waker) {
    while let Some(task) = tasks.take() {
        // A job that panics leaves its caller waiting for ever (a sync that never comes): better to end at once and
        // recover, as after a kill.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match task {
            Task::Job(job) => Done::Job(job.run()),
            Task::Fill(session, range) => Done::Filled(session, range.read()),
            Task::Send(session, errand) => Done::Sent(session, errand.run()),
            Task::Handshake(session, step) => Done::Handshake(session, Box::new(step.run())),
        }));
        let Ok(outcome) = outcome else {
            tracing::error!("a background job panicked: the server ends so that the next start can recover");
            std::process::abort();
        };
        if done.send(outcome).is_err() || bell.wake().is_err() {
            return;
        }
    }
}
