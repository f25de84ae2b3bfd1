//! Which values may be shared between threads, and which futures may be spawned. This is checked when it is compiled.

use std::future::Future;

use nostray::{
    Cause, Change, ChangeKind, Child, ChildState, Ending, Error, Exit, IfTaken, Pen, PenSpec, PenSpecBuilder,
    Registry, Session, Stderr, Stdin, Stdio, Stdout, SweepPolicy, Swept, Watch, blocking, parent::Parent, singleton,
    singleton::Singleton,
};

fn is_send_and_sync<T: Send + Sync + 'static>() {}

fn is_send<T>(_: impl Future<Output = T> + Send) {}

macro_rules! are_send_and_sync {
    ($($name:ty),+ $(,)?) => { $(is_send_and_sync::<$name>();)+ };
}

#[test]
fn every_public_value_is_send_and_sync() {
    are_send_and_sync!(
        Cause,
        Change,
        ChangeKind,
        Child,
        ChildState,
        Ending,
        Error,
        Exit,
        IfTaken,
        Parent,
        Pen,
        PenSpec,
        PenSpecBuilder,
        Registry,
        Session,
        Singleton,
        Stderr,
        Stdin,
        Stdio,
        Stdout,
        SweepPolicy,
        Swept,
        Watch,
        blocking::Pen,
    );
}

#[test]
fn futures_may_be_spawned() {
    fn pen(pen: &mut Pen) {
        is_send(pen.wait());
        is_send(pen.stop(std::time::Duration::ZERO, std::time::Duration::ZERO));
    }
    fn watch(watch: &mut Watch) {
        is_send(watch.next());
    }
    let _ = pen as fn(&mut Pen);
    let _ = watch as fn(&mut Watch);
    is_send(nostray::parent::watch());
    is_send(singleton::acquire_async("nostray-threads", IfTaken::Fail));
}

#[cfg(feature = "supervisor")]
mod leases {
    use nostray::{
        Backoff, CallError, Generation, HandlerError, Handshake, Hook, JsonError, Lease, LeaseSpec, LeaseSpecBuilder,
        McpClient, Notification, Protocol, Rate, Subscription, Supervisor, WeakLease,
    };
    use serde_json::{Value, json};

    use super::{is_send, is_send_and_sync};

    #[test]
    fn every_value_of_leases_is_send_and_sync() {
        are_send_and_sync!(
            Backoff,
            CallError,
            Generation,
            HandlerError,
            Handshake,
            Hook<String>,
            JsonError,
            Lease,
            LeaseSpec,
            LeaseSpecBuilder,
            McpClient,
            Notification,
            Protocol,
            Rate,
            Subscription,
            Supervisor,
            WeakLease,
        );
    }

    #[test]
    fn futures_of_leases_may_be_spawned() {
        fn lease(lease: &Lease) {
            let params = json!({});
            is_send(lease.call::<Value>("x", &params));
            is_send(lease.ready());
        }
        fn subscription(subscription: &mut Subscription) {
            is_send(subscription.next());
        }
        let _ = lease as fn(&Lease);
        let _ = subscription as fn(&mut Subscription);
        is_send(Supervisor::new().shutdown());
    }
}
