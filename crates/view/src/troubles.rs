//! What keeps a view from knowing everything, or sessions from beginning: records that cannot be read, a broker that is stopped.

use nostray_registry::Place;

use crate::listed::Listed;

/// Looks for troubles.
#[derive(Debug, Default)]
pub struct Troubles {
    broker: crate::stopped_broker::StoppedBroker,
}

impl Troubles {
    /// What there is to say now, a sentence each.
    pub fn look(&mut self, children: &[Listed]) -> Vec<String> {
        let unreadable = Place::unreadable().into_iter();
        let mut said: Vec<String> =
            unreadable.map(|(path, why)| format!("records cannot be read: {}: {why}", path.display())).collect();
        // Without shared children, no session needs the broker.
        if children.iter().any(|child: &Listed| child.record().is_some_and(|record| record.shared.is_some())) {
            said.extend(self.broker.look());
        }
        said
    }
}
