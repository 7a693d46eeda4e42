//! Tenants and permissions through the broker's own calls, and through a crash.

use crate::rig::*;
use broker::access::*;
use broker::queue::QueueSpec;
use broker::routing::{BindingSpec, ExchangeKind, ExchangeSpec};
use broker::user::User;
use broker::{BrokerError, SessionId};

const ME: SessionId = SessionId(1);

fn tenant(text: &str) -> Tenant {
    Tenant { name: text.to_owned(), ..Tenant::default() }
}

fn permission(user: &str, tenant: &str, [configure, write, read]: [&str; 3]) -> Permission {
    let (user, tenant) = (user.to_owned(), tenant.to_owned());
    Permission { user, tenant, configure: configure.into(), write: write.into(), read: read.into() }
}

fn with_user(rig: &mut Rig, text: &str) {
    rig.broker.store_user(&User { name: text.to_owned(), ..User::default() }).unwrap();
}

fn may(rig: &Rig, user: &str, tenant: &str, resource: Resource<'_>, operation: Operation) -> bool {
    rig.broker.authorize((&name(user), &name(tenant)), resource, operation).is_ok()
}

#[test]
fn the_first_user_may_everything_in_the_default_tenant_and_nothing_elsewhere() {
    let mut rig = Rig::new();
    rig.broker.put_tenant(&tenant("t")).unwrap();
    for operation in [Operation::Configure, Operation::Write, Operation::Read] {
        assert!(may(&rig, "guest", "/", Resource::Queue("q"), operation));
        assert!(!may(&rig, "guest", "t", Resource::Queue("q"), operation));
        assert!(!may(&rig, "nobody", "/", Resource::Queue("q"), operation));
    }
    assert!(rig.broker.may_enter("guest", "/") && !rig.broker.may_enter("guest", "t"));
}

#[test]
fn patterns_are_held_against_the_name_and_an_empty_one_lets_nothing_through() {
    let mut rig = Rig::new();
    with_user(&mut rig, "u");
    rig.broker.put_permission(&permission("u", "/", ["^u-", "^(u-|amq\\.default$)", ""])).unwrap();
    assert!(may(&rig, "u", "/", Resource::Queue("u-q"), Operation::Configure));
    assert!(!may(&rig, "u", "/", Resource::Queue("v-q"), Operation::Configure));
    assert!(may(&rig, "u", "/", Resource::Exchange(""), Operation::Write));
    assert!(!may(&rig, "u", "/", Resource::Exchange("e"), Operation::Write));
    assert!(!may(&rig, "u", "/", Resource::Queue("u-q"), Operation::Read));
    let bad = rig.broker.put_permission(&permission("u", "/", ["(", "", ""])).unwrap_err();
    assert!(matches!(bad, BrokerError::Invalid(_)), "{bad}");
}

#[test]
fn a_pass_remembers_what_is_allowed_until_permissions_change() {
    let mut rig = Rig::new();
    with_user(&mut rig, "u");
    rig.broker.put_permission(&permission("u", "/", ["", "e", ""])).unwrap();
    let mut pass = Pass::new(&name("u"), &name("/"));
    for _ in 0..2 {
        assert!(pass.check(&rig.broker, Resource::Exchange("e"), Operation::Write).is_ok());
        assert!(pass.check(&rig.broker, Resource::Exchange("e"), Operation::Read).is_err());
        assert!(pass.check(&rig.broker, Resource::Exchange("f"), Operation::Write).is_err());
    }
    rig.broker.put_permission(&permission("u", "/", ["", "f", ""])).unwrap();
    let refused = pass.check(&rig.broker, Resource::Exchange("e"), Operation::Write).unwrap_err();
    assert_eq!(refused.to_string(), "access to exchange 'e' in tenant '/' refused for user 'u'");
    assert!(pass.check(&rig.broker, Resource::Exchange("f"), Operation::Write).is_ok());
}

#[test]
fn routing_keys_are_limited_by_exchange_and_variables_are_taken_literally() {
    let mut rig = Rig::new();
    with_user(&mut rig, "a.b");
    rig.broker.put_permission(&permission("a.b", "/", ["", ".*", ".*"])).unwrap();
    let of = |exchange: &str| TopicPermission {
        user: "a.b".into(),
        tenant: "/".into(),
        exchange: exchange.into(),
        write: "^{username}\\.{vhost}$".into(),
        read: String::new(),
    };
    assert!(rig.broker.put_topic_permission(&of("e")).unwrap().0);
    assert!(!rig.broker.put_topic_permission(&of("e")).unwrap().0);
    let (user, root) = (name("a.b"), name("/"));
    let allowed = |rig: &Rig, exchange: &str, key: &str, reads| {
        rig.broker.authorize_key((&user, &root), (exchange, key), reads).is_ok()
    };
    assert!(allowed(&rig, "e", "a.b./", false));
    assert!(!allowed(&rig, "e", "axb./", false) && !allowed(&rig, "e", "a.b./", true));
    assert!(allowed(&rig, "f", "anything", false) && allowed(&rig, "f", "anything", true));
    let key = TopicPermissionKey { user: "a.b".into(), tenant: "/".into(), exchange: None };
    rig.broker.delete_topic_permission(&key).unwrap();
    assert!(allowed(&rig, "e", "axb./", false));
}

/// What a change touches is compiled anew and nothing else: it must come to the same as a start, which compiles all.
#[test]
fn what_is_granted_is_the_same_after_each_change_as_after_a_start() {
    let everybody = ["u", "v"].into_iter().flat_map(|user| ["/", "t"].map(|tenant| (user, tenant)));
    let everybody: Vec<_> = everybody.collect();
    let granted = |rig: &Rig| -> Vec<[bool; 3]> {
        let of = |(user, tenant): &(&str, &str)| {
            let whose = (&name(user), &name(tenant));
            let writes = may(rig, user, tenant, Resource::Exchange("e"), Operation::Write);
            [rig.broker.may_enter(user, tenant), writes, rig.broker.authorize_key(whose, ("e", "k"), false).is_ok()]
        };
        everybody.iter().map(of).collect()
    };
    let keys = || TopicPermission {
        user: "u".into(),
        tenant: "t".into(),
        exchange: "e".into(),
        write: "^x$".into(),
        read: String::new(),
    };
    let change = |rig: &mut Rig, step: usize| match step {
        0 => {
            with_user(rig, "u");
            with_user(rig, "v");
            rig.broker.put_tenant(&tenant("t")).map(drop)
        }
        1 => everybody.iter().try_for_each(|(user, tenant)| {
            rig.broker.put_permission(&permission(user, tenant, ["", "e", ""])).map(drop)
        }),
        2 => rig.broker.put_topic_permission(&keys()).map(drop),
        3 => rig.broker.store_user(&User { name: "u".to_owned(), ..User::default() }).map(drop),
        4 => rig.broker.delete_permission("u", "t").map(drop),
        5 => rig.broker.put_permission(&permission("u", "t", ["", "", ""])).map(drop),
        6 => {
            let key = TopicPermissionKey { user: "u".into(), tenant: "t".into(), exchange: None };
            rig.broker.delete_topic_permission(&key).map(drop)
        }
        7 => rig.broker.delete_tenant("t", rig.now).map(drop),
        _ => rig.broker.delete_user("v").map(drop),
    };
    let mut rig = Rig::new();
    let mut seen = std::collections::BTreeSet::new();
    for step in 0..9 {
        change(&mut rig, step).unwrap();
        let before = granted(&rig);
        rig.settle_down();
        rig = rig.power_cut(1);
        assert_eq!(granted(&rig), before);
        seen.insert(before);
    }
    assert!(seen.len() >= 6, "{seen:?}");
}

#[test]
fn acknowledged_tenants_and_permissions_survive_a_power_cut() {
    let mut rig = Rig::new();
    with_user(&mut rig, "u");
    let made = Tenant { description: "for tests".into(), tags: vec!["x".into()], ..tenant("t") };
    assert!(rig.broker.put_tenant(&made).unwrap().0);
    assert!(rig.broker.put_permission(&permission("u", "t", ["a", "b", "c"])).unwrap().0);
    rig.settle_down();
    let mut rig = rig.power_cut(1);
    assert_eq!(rig.broker.tenant("t"), Some(made.clone()));
    assert_eq!(rig.broker.tenants(), [tenant("/"), made]);
    assert!(may(&rig, "u", "t", Resource::Queue("xbx"), Operation::Write));
    rig.broker.delete_permission("u", "t").unwrap();
    assert!(!rig.broker.may_enter("u", "t"));
    let missing = rig.broker.delete_permission("u", "t").unwrap_err();
    assert!(matches!(missing, BrokerError::Missing { .. }));
}

#[test]
fn a_deleted_tenant_is_gone_with_all_it_had_and_the_others_keep_theirs() {
    let mut rig = Rig::new();
    for tenant_name in ["/", "t"] {
        if tenant_name != "/" {
            rig.broker.put_tenant(&tenant(tenant_name)).unwrap();
        }
        let tenant = name(tenant_name);
        rig.declare(&QueueSpec { tenant: tenant.clone(), durable: true, ..spec("q") }).unwrap();
        rig.declare(&QueueSpec { tenant: tenant.clone(), ..spec("fleeting") }).unwrap();
        let made = ExchangeSpec { tenant: tenant.clone(), durable: true, ..exchange("e", ExchangeKind::Direct) };
        rig.broker.declare_exchange(&made).unwrap();
        rig.broker.bind(ME, &BindingSpec { tenant: tenant.clone(), ..binding("e", "q", "k") }).unwrap();
        rig.broker.open_mailbox(ME, &tenant, &name("mail"));
    }
    rig.settle_down();
    let now = rig.now;
    rig.broker.delete_tenant("t", now).unwrap();
    let gone = |rig: &Rig| {
        assert!(!rig.broker.has_tenant("t"));
        assert_eq!((rig.broker.queues("t").len(), rig.broker.bindings("t").len()), (0, 0));
        assert!(rig.broker.exchange("t", "e").is_none());
        assert!(rig.broker.exchange("/", "e").is_some());
        assert_eq!(rig.broker.bindings("/").len(), 1);
    };
    gone(&rig);
    assert!(!rig.broker.has_mailbox("t", "mail") && rig.broker.has_mailbox("/", "mail"));
    assert_eq!(rig.broker.queues("/").len(), 2);
    rig.settle_down();
    let mut rig = rig.power_cut(2);
    gone(&rig);
    rig.broker.put_tenant(&tenant("t")).unwrap();
    gone_again(&rig);
    assert!(rig.broker.delete_tenant("/", now).is_err());
}

/// A tenant made again under an old name begins empty.
fn gone_again(rig: &Rig) {
    assert_eq!((rig.broker.queues("t").len(), rig.broker.bindings("t").len()), (0, 0));
    assert!(rig.broker.permissions().iter().all(|permission| permission.tenant != "t"));
}
