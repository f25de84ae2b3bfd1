//! What the host has seen of a server's lists, so that it can be told when a new child has others.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// A list that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub(crate) const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    pub(crate) fn from_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The server's capability that it belongs to.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// What tells a host that it has changed.
    pub(crate) fn notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources | Self::Templates => "notifications/resources/list_changed",
        }
    }

    fn items(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// What a stream of the newer era names it.
    pub(crate) fn filter(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources | Self::Templates => "resourcesListChanged",
        }
    }
}

/// One page of a list, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// Stands for the items on it, in their order; not for the order of members in them.
    digest: u64,
    /// Where the next one begins.
    pub(crate) next: Option<String>,
}

impl Page {
    /// What a result says.
    pub(crate) fn of(kind: ListKind, result: &[u8]) -> Option<Self> {
        let result: Value = serde_json::from_slice(result).ok()?;
        let mut hasher = DefaultHasher::new();
        // Members of an object are sorted by name here, so that their order does not count.
        result.get(kind.items())?.to_string().hash(&mut hasher);
        let next = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        Some(Self { digest: hasher.finish(), next })
    }
}

/// What the host has seen of each list.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    lists: Vec<List>,
}

#[derive(Debug)]
struct List {
    kind: ListKind,
    pages: Vec<Page>,
    /// What the host said when it asked for the first page.
    params: Value,
}

/// What a look at a page of a new child says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// As the host knows it, to the end.
    Same,
    /// As far as this page goes; the next one begins here.
    SoFar { next: String },
    /// Not as the host knows it.
    Changed,
}

impl Seen {
    /// The host got a page.
    pub(crate) fn page(&mut self, kind: ListKind, cursor: Option<&str>, page: Page, params: Value) {
        let position = self.lists.iter().position(|list| list.kind == kind);
        match (cursor, position) {
            (None, Some(at)) => self.lists[at] = List { kind, pages: vec![page], params },
            (None, None) => self.lists.push(List { kind, pages: vec![page], params }),
            (Some(cursor), Some(at)) => {
                let pages = &mut self.lists[at].pages;
                if pages.last().is_some_and(|last| last.next.as_deref() == Some(cursor)) {
                    pages.push(page);
                }
            }
            (Some(_), None) => {}
        }
    }

    /// The host has been told that it changed, and will ask when it wants to know.
    pub(crate) fn forget(&mut self, kind: ListKind) {
        self.lists.retain(|list| list.kind != kind);
    }

    /// The kinds of list that the host has seen.
    pub(crate) fn kinds(&self) -> Vec<ListKind> {
        self.lists.iter().map(|list| list.kind).collect()
    }

    /// How it has asked for one.
    pub(crate) fn params(&self, kind: ListKind) -> Option<&Value> {
        self.lists.iter().find(|list| list.kind == kind).map(|list| &list.params)
    }

    /// Compares page `number`, from 0, of a new child's list.
    pub(crate) fn compare(&self, kind: ListKind, number: usize, page: &Page) -> Compared {
        let Some(list) = self.lists.iter().find(|list| list.kind == kind) else { return Compared::Same };
        let Some(known) = list.pages.get(number) else { return Compared::Same };
        if known.digest != page.digest || known.next.is_some() != page.next.is_some() {
            return Compared::Changed;
        }
        match &page.next {
            // The host has not looked further either.
            Some(next) if list.pages.len() > number + 1 => Compared::SoFar { next: next.clone() },
            _ => Compared::Same,
        }
    }
}

/// Which kinds of lists differ between two answers to `initialize` (or `server/discover`): those whose capability does.
pub(crate) fn changed_capabilities(before: &[u8], after: &[u8]) -> Vec<ListKind> {
    let capabilities = |result: &[u8]| {
        let result: Option<Value> = serde_json::from_slice(result).ok();
        result.and_then(|result| result.get("capabilities").cloned()).unwrap_or(Value::Null)
    };
    let (before, after) = (capabilities(before), capabilities(after));
    [ListKind::Tools, ListKind::Prompts, ListKind::Resources]
        .into_iter()
        .filter(|kind| before.get(kind.capability()) != after.get(kind.capability()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::of(ListKind::Tools, text.as_bytes()).expect("a page")
    }

    #[test]
    fn the_order_of_members_does_not_count_and_that_of_items_does() {
        assert_eq!(page(r#"{"tools":[{"a":1,"b":2}]}"#), page(r#"{"tools":[{"b":2,"a":1}],"ttlMs":5}"#));
        assert_ne!(page(r#"{"tools":[1,2]}"#), page(r#"{"tools":[2,1]}"#));
        assert_eq!(Page::of(ListKind::Tools, b"{}"), None);
    }

    #[test]
    fn a_list_is_compared_as_far_as_the_host_has_seen_it() {
        let mut seen = Seen::default();
        let (first, last) = (page(r#"{"tools":[1],"nextCursor":"x"}"#), page(r#"{"tools":[2]}"#));
        seen.page(ListKind::Tools, None, first.clone(), Value::Null);
        assert_eq!(seen.compare(ListKind::Tools, 0, &first), Compared::Same);
        seen.page(ListKind::Tools, Some("x"), last.clone(), Value::Null);
        // Another child may name its pages otherwise.
        let renamed = page(r#"{"tools":[1],"nextCursor":"y"}"#);
        assert_eq!(seen.compare(ListKind::Tools, 0, &renamed), Compared::SoFar { next: "y".to_owned() });
        assert_eq!(seen.compare(ListKind::Tools, 1, &last), Compared::Same);
        assert_eq!(seen.compare(ListKind::Tools, 0, &last), Compared::Changed);
        assert_eq!(seen.compare(ListKind::Tools, 1, &page(r#"{"tools":[3]}"#)), Compared::Changed);
        assert_eq!(seen.compare(ListKind::Prompts, 0, &last), Compared::Same);
    }

    #[test]
    fn a_capability_that_came_or_went_names_its_list() {
        let before = br#"{"capabilities":{"tools":{},"prompts":{"listChanged":true}}}"#;
        let after = br#"{"capabilities":{"prompts":{"listChanged":true},"resources":{}}}"#;
        assert_eq!(changed_capabilities(before, after), [ListKind::Tools, ListKind::Resources]);
        assert_eq!(changed_capabilities(before, before), []);
    }
}
