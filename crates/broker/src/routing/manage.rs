//! Making and removing exchanges and bindings.

use cluster::Command;
use cluster::meta::Binding;
use model::{LogId, Name};
use storage::Lsn;

use super::exchange::Arguments;
use super::feed::Feed;
use super::recover::{stored, stored_binding};
use super::table::Dest;
use super::{BindingSpec, Destination, ExchangeSpec};
use crate::core::Core;
use crate::queue::Queues;
use crate::{BrokerError, SessionId};

impl Queues {
    pub(super) fn declare_exchange(
        &mut self,
        core: &mut Core,
        spec: &ExchangeSpec,
    ) -> Result<(ExchangeSpec, Lsn), BrokerError> {
        if let Some(found) = self.exchanges.spec(&spec.tenant, &spec.name) {
            return Ok((found, core.catalog.last_change()));
        }
        core.tenant_of(&spec.tenant)?;
        // What waits for an earlier exchange of the name is not for this one.
        let number = if spec.delayed { core.new_log_id()?.0 } else { 0 };
        let spec = ExchangeSpec { number, ..spec.clone() };
        let lsn = if spec.durable { core.run(&Command::CreateExchange(stored(&spec)))? } else { Lsn::default() };
        self.exchanges.insert(spec.clone());
        self.govern_exchange(&spec.tenant, &spec.name);
        Ok((spec, lsn))
    }

    pub(super) fn delete_exchange(
        &mut self,
        core: &mut Core,
        tenant: &str,
        name: &str,
        if_unused: bool,
    ) -> Result<Lsn, BrokerError> {
        match self.exchanges.get(tenant, name) {
            Some(exchange) if if_unused && !exchange.is_unused() => {
                Err(BrokerError::InUse { name: name.to_owned(), why: "in use" })
            }
            Some(_) => self.remove_exchange(core, tenant, name),
            None => Ok(core.catalog.last_change()),
        }
    }

    /// Removes an exchange with its bindings, and those exchanges that go with the last of theirs.
    fn remove_exchange(&mut self, core: &mut Core, tenant: &str, name: &str) -> Result<Lsn, BrokerError> {
        let mut lsn = Lsn::default();
        let mut gone = vec![name.to_owned()];
        while let Some(name) = gone.pop() {
            let durable = self.exchanges.get(tenant, &name).is_some_and(|exchange| exchange.spec.durable);
            if durable && !self.exchanges.is_builtin(&name) {
                lsn = lsn.max(core.run(&Command::DeleteExchange((tenant.to_owned(), name.clone())))?);
            }
            if let Some(id) = self.exchanges.remove(tenant, &name) {
                self.unbind_fed(core, tenant, Dest::Exchange(id));
                let unused = self.exchanges.unbind_all(tenant, Dest::Exchange(id));
                gone.extend(unused.iter().map(ToString::to_string));
            }
        }
        Ok(lsn)
    }

    /// Removes all exchanges of a tenant with their bindings.
    pub(crate) fn remove_exchanges_of(&mut self, core: &mut Core, tenant: &str) -> Result<(), BrokerError> {
        let mut names: Vec<String> = self.exchanges.made(tenant).map(|one| one.spec.name.to_string()).collect();
        names.sort_unstable(); // the same order on every run
        for name in names {
            self.remove_exchange(core, tenant, &name)?;
        }
        self.exchanges.forget_tenant(tenant);
        Ok(())
    }

    /// A queue is gone, from the catalog too: its bindings go, and the exchanges whose last ones these were.
    pub(crate) fn unbind_queue(&mut self, core: &mut Core, tenant: &str, queue: u64) -> Result<Lsn, BrokerError> {
        let mut lsn = Lsn::default();
        self.unbind_fed(core, tenant, Dest::Queue(queue));
        for exchange in self.exchanges.unbind_all(tenant, Dest::Queue(queue)) {
            lsn = lsn.max(self.remove_exchange(core, tenant, &exchange)?);
        }
        Ok(lsn)
    }

    /// The destination of a binding, and whether it survives a restart.
    fn destination(&mut self, session: SessionId, spec: &BindingSpec) -> Result<(Dest, bool), BrokerError> {
        match &spec.destination {
            Destination::Queue(name) => {
                let queue = self.find(session, &spec.tenant, name)?;
                Ok((Dest::Queue(queue.id), queue.is_stored()))
            }
            Destination::Exchange(name) => {
                let id = self.exchanges.id_made(&spec.tenant, name).ok_or_else(|| no_exchange(name))?;
                let durable = self.exchanges.of_id(id).is_some_and(|exchange| exchange.spec.durable);
                Ok((Dest::Exchange(id), durable))
            }
        }
    }

    pub(super) fn bind(&mut self, core: &mut Core, session: SessionId, spec: &BindingSpec) -> Result<Lsn, BrokerError> {
        let (dest, is_stored) = self.destination(session, spec)?;
        let source = self.exchanges.id_made(&spec.tenant, &spec.exchange);
        let Some(source) = source.and_then(|id| self.exchanges.of_id(id)) else {
            return self.bind_to_topic(core, spec, dest, is_stored);
        };
        if source.has(dest, &spec.key, &spec.arguments) {
            return Ok(core.catalog.last_change());
        }
        // A binding lasts as long as both its ends.
        let lasts = is_stored && source.spec.durable;
        let lsn = if lasts { core.run(&Command::Bind(stored_binding(spec)))? } else { Lsn::default() };
        source.bind(dest, &spec.key, &spec.arguments);
        Ok(lsn)
    }

    pub(super) fn unbind(
        &mut self,
        core: &mut Core,
        session: SessionId,
        spec: &BindingSpec,
    ) -> Result<Lsn, BrokerError> {
        let (dest, is_stored) = match self.destination(session, spec) {
            Err(BrokerError::Missing { .. }) => return Ok(core.catalog.last_change()),
            found => found?,
        };
        let source = self.exchanges.id_of(&spec.tenant, &spec.exchange);
        let Some(source) = source.and_then(|id| self.exchanges.of_id(id)) else {
            return self.unbind_from_topic(core, spec, dest, is_stored);
        };
        if !source.has(dest, &spec.key, &spec.arguments) {
            return Ok(core.catalog.last_change());
        }
        let lasts = is_stored && source.spec.durable;
        let lsn = if lasts { core.run(&Command::Unbind(stored_binding(spec)))? } else { Lsn::default() };
        source.unbind(dest, &spec.key, &spec.arguments);
        if source.spec.auto_delete && source.is_unused() {
            return Ok(lsn.max(self.remove_exchange(core, &spec.tenant, &spec.exchange)?));
        }
        Ok(lsn)
    }

    /// Binds to a topic, since no exchange has the name: what is appended to it from now on is fed.
    fn bind_to_topic(
        &mut self,
        core: &mut Core,
        spec: &BindingSpec,
        dest: Dest,
        is_stored: bool,
    ) -> Result<Lsn, BrokerError> {
        let topic = core.topics.get(&spec.tenant, &spec.exchange).filter(|topic| !topic.internal);
        let logs = topic.ok_or_else(|| no_exchange(&spec.exchange))?.partitions.clone();
        if let Dest::Queue(id) = dest
            && self.by_id.get(&id).is_some_and(|queue| queue.own_log().is_none())
        {
            let why = format!("queue '{}' shares a topic: it cannot be fed by topic '{}'", spec.to(), spec.exchange);
            return Err(BrokerError::Invalid(why));
        }
        let end = |log: &LogId| core.partitions.next_offset(*log).map(|end| (log.0, end.0));
        let since = logs.iter().filter_map(end).collect::<Vec<_>>();
        let bound = (dest, &spec.key, &spec.arguments);
        if self.feeds.get(&spec.tenant, &spec.exchange).is_some_and(|feed| feed.bindings().has(bound)) {
            return Ok(core.catalog.last_change());
        }
        let lsn = if is_stored {
            core.run(&Command::Bind(Binding { since: since.clone(), ..stored_binding(spec) }))?
        } else {
            Lsn::default()
        };
        if self.feeds.get(&spec.tenant, &spec.exchange).is_none() {
            self.feeds.insert(Feed::new(&spec.tenant, &spec.exchange, &since));
        }
        if let Some(feed) = self.feeds.get_mut(&spec.tenant, &spec.exchange) {
            feed.bind(bound, &since, is_stored);
        }
        Ok(lsn)
    }

    fn unbind_from_topic(
        &mut self,
        core: &mut Core,
        spec: &BindingSpec,
        dest: Dest,
        is_stored: bool,
    ) -> Result<Lsn, BrokerError> {
        let bound = (dest, &spec.key, &spec.arguments);
        let Some(feed) = self.feeds.get_mut(&spec.tenant, &spec.exchange).filter(|feed| feed.bindings().has(bound))
        else {
            return Ok(core.catalog.last_change());
        };
        let fed = Binding { since: vec![(0, 0)], ..stored_binding(spec) };
        let lsn = if is_stored { core.run(&Command::Unbind(fed))? } else { Lsn::default() };
        feed.unbind(bound);
        if feed.bindings().all().next().is_none() {
            self.feed_deleted(core, &spec.tenant, &spec.exchange);
        }
        Ok(lsn)
    }

    /// All bindings of a tenant, ordered by exchange, destination and key.
    pub(super) fn is_bound(&self, spec: &BindingSpec) -> bool {
        let (tenant, source) = (&*spec.tenant, &*spec.exchange);
        let dest = match &spec.destination {
            Destination::Queue(name) => self.id_of(tenant, name).map(Dest::Queue),
            Destination::Exchange(name) => self.exchanges.id_of(tenant, name).map(Dest::Exchange),
        };
        let Some(dest) = dest else { return false };
        match self.exchanges.get(tenant, source) {
            Some(exchange) => exchange.has(dest, &spec.key, &spec.arguments),
            None => {
                let bound = (dest, &spec.key, &spec.arguments);
                self.feeds.get(tenant, source).is_some_and(|feed| feed.bindings().has(bound))
            }
        }
    }

    pub(super) fn list_bindings(&self, tenant: &str) -> Vec<BindingSpec> {
        let mut all = Vec::new();
        let mut add = |tenant: &Name, from: &Name, (dest, key, arguments): (Dest, &Name, &Arguments)| {
            let destination = match dest {
                Dest::Queue(id) => self.name_of(id).map(Destination::Queue),
                Dest::Exchange(id) => self.exchanges.name_of(id).cloned().map(Destination::Exchange),
            };
            all.extend(destination.map(|destination| BindingSpec {
                tenant: tenant.clone(),
                exchange: from.clone(),
                destination,
                key: key.clone(),
                arguments: arguments.clone(),
            }));
        };
        for exchange in self.exchanges.made(tenant) {
            exchange.bindings().for_each(|bound| add(&exchange.spec.tenant, &exchange.spec.name, bound));
        }
        for feed in self.feeds.of_tenant(tenant) {
            feed.bindings().all().for_each(|bound| add(&feed.tenant, &feed.topic, bound));
        }
        all.sort_by(|one, other| (&one.exchange, one.to(), &one.key).cmp(&(&other.exchange, other.to(), &other.key)));
        all
    }
}

fn no_exchange(name: &str) -> BrokerError {
    BrokerError::Missing { kind: "exchange", name: name.to_owned() }
}
