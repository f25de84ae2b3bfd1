//! What an earlier run of the very same command has answered about itself, so that a host can be told what a server can do
//! without starting it. It is a guess until the next real start, which checks it.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::lists::ListKind;

const VERSION: u32 = 1;
/// A server that says more about itself than this is asked each time.
const LARGEST: u64 = 8 << 20;
/// Clients of one server that differ in version or capabilities; the oldest is forgotten.
const MAX_CLIENTS: usize = 8;

/// What a command has said about itself.
#[derive(Debug, Default)]
pub struct Cache {
    file: Option<PathBuf>,
    stored: Stored,
    changed: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    version: u32,
    clients: Vec<Client>,
}

/// What it said to one kind of client.
#[derive(Debug, Serialize, Deserialize)]
struct Client {
    /// The protocol version that was asked for.
    protocol: String,
    /// The client's capabilities: some servers offer more to a client that can do more.
    capabilities: Value,
    /// The answer to `initialize` or, in the newer era, to `server/discover`.
    hello: Option<Box<RawValue>>,
    lists: Vec<CachedPage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CachedPage {
    method: String,
    cursor: Option<String>,
    result: Box<RawValue>,
}

/// The client that asks, as far as answers depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) protocol: String,
    pub(crate) capabilities: Value,
}

impl Cache {
    /// The one of this command in this directory; empty if there is none, or none that can be trusted.
    #[must_use]
    pub fn open(command: &[OsString], directory: &Path) -> Self {
        let Some(file) = file_for(command, directory) else { return Self::default() };
        let stored = read(&file).unwrap_or_default();
        Self { file: Some(file), stored, changed: false }
    }

    /// Writes down what has changed.
    pub fn save(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.changed) else { return Ok(()) };
        self.changed = false;
        self.stored.version = VERSION;
        let text = serde_json::to_vec(&self.stored)?;
        if text.len() as u64 > LARGEST {
            return Ok(());
        }
        if let Some(folder) = file.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let new = file.with_extension(format!("{}.new", std::process::id()));
        let mut written = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        let done = written.write_all(&text).and_then(|()| std::fs::rename(&new, file));
        if done.is_err() {
            std::fs::remove_file(&new).ok();
        }
        done
    }

    /// The exact client, or another with the same protocol version: what its capabilities change is found out at the
    /// next start.
    fn client(&self, asker: &Asker) -> Option<&Client> {
        let same = |client: &&Client| client.protocol == asker.protocol;
        let exact = |client: &&Client| same(client) && client.capabilities == asker.capabilities;
        self.stored.clients.iter().find(exact).or_else(|| self.stored.clients.iter().rev().find(same))
    }

    fn client_mut(&mut self, asker: &Asker) -> &mut Client {
        let clients = &mut self.stored.clients;
        let exact = |client: &Client| client.protocol == asker.protocol && client.capabilities == asker.capabilities;
        let at = clients.iter().position(exact).unwrap_or_else(|| {
            if clients.len() >= MAX_CLIENTS {
                clients.remove(0);
            }
            clients.push(Client {
                protocol: asker.protocol.clone(),
                capabilities: asker.capabilities.clone(),
                hello: None,
                lists: Vec::new(),
            });
            clients.len() - 1
        });
        &mut clients[at]
    }

    /// What it answered to `initialize` or `server/discover`.
    pub(crate) fn hello(&self, asker: &Asker) -> Option<&[u8]> {
        self.client(asker)?.hello.as_ref().map(|raw| raw.get().as_bytes())
    }

    /// A page of a list.
    pub(crate) fn page(&self, asker: &Asker, kind: ListKind, cursor: Option<&str>) -> Option<&[u8]> {
        let pages = &self.client(asker)?.lists;
        let page = pages.iter().find(|page| page.method == kind.method() && page.cursor.as_deref() == cursor)?;
        Some(page.result.get().as_bytes())
    }

    pub(crate) fn learn_hello(&mut self, asker: &Asker, result: &[u8]) {
        let Some(raw) = raw(result) else { return };
        let client = self.client_mut(asker);
        if client.hello.as_ref().map(|known| known.get()) != Some(raw.get()) {
            client.hello = Some(raw);
            self.changed = true;
        }
    }

    pub(crate) fn learn_page(&mut self, asker: &Asker, kind: ListKind, cursor: Option<&str>, result: &[u8]) {
        let Some(raw) = raw(result) else { return };
        let pages = &mut self.client_mut(asker).lists;
        let known = pages.iter().find(|page| page.method == kind.method() && page.cursor.as_deref() == cursor);
        if known.is_some_and(|page| page.result.get() == raw.get()) {
            return;
        }
        // A new beginning has new pages behind it.
        pages.retain(|page| page.method != kind.method() || (cursor.is_some() && page.cursor.as_deref() != cursor));
        let cursor = cursor.map(str::to_owned);
        pages.push(CachedPage { method: kind.method().to_owned(), cursor, result: raw });
        self.changed = true;
    }

    /// The server says that a list has changed.
    pub(crate) fn forget(&mut self, kind: ListKind) {
        for client in &mut self.stored.clients {
            let before = client.lists.len();
            client.lists.retain(|page| {
                ListKind::from_method(&page.method).is_none_or(|known| known.capability() != kind.capability())
            });
            self.changed |= client.lists.len() < before;
        }
    }
}

fn raw(json: &[u8]) -> Option<Box<RawValue>> {
    serde_json::from_slice(json).ok()
}

/// Two commands are the same if program, arguments and directory are. They may hold secrets, so that only a digest is written.
fn file_for(command: &[OsString], directory: &Path) -> Option<PathBuf> {
    let cache = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = cache("XDG_CACHE_HOME").or_else(|| cache("HOME").map(|home| home.join(".cache")))?;
    let digest = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        command.iter().for_each(|word| word.as_bytes().hash(&mut hasher));
        directory.as_os_str().as_bytes().hash(&mut hasher);
        hasher.finish()
    };
    Some(root.join("nostray").join(format!("{:016x}{:016x}.json", digest(0), digest(1))))
}

fn read(path: &Path) -> Option<Stored> {
    let flags = nostray_sys::descriptors::NO_FOLLOW_AND_DO_NOT_WAIT;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.uid() != nostray_sys::process::user() || found.len() > LARGEST {
        return None;
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice::<Stored>(&text).ok().filter(|stored| stored.version == VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(protocol: &str, capabilities: &str) -> Asker {
        Asker { protocol: protocol.to_owned(), capabilities: serde_json::from_str(capabilities).expect("json") }
    }

    #[test]
    fn what_was_learned_is_known_again_and_torn_or_foreign_files_are_not_believed() {
        let folder = std::env::temp_dir().join(format!("nostray-cache-{}", nostray_sys::process::random()));
        let file = folder.join("a.json");
        let mut cache = Cache { file: Some(file.clone()), ..Cache::default() };
        let (old, rich) = (asker("2025-06-18", "{}"), asker("2025-06-18", r#"{"sampling":{}}"#));
        cache.learn_hello(&old, br#"{"serverInfo":  1.50}"#);
        cache.learn_page(&old, ListKind::Tools, None, br#"{"tools":[1],"nextCursor":"x"}"#);
        cache.learn_page(&old, ListKind::Tools, Some("x"), br#"{"tools":[2]}"#);
        cache.save().expect("saved");
        assert!(!cache.changed);

        let again = Cache { stored: read(&file).expect("read"), ..Cache::default() };
        assert_eq!(again.hello(&old), Some(br#"{"serverInfo":  1.50}"#.as_slice()), "byte for byte");
        assert_eq!(again.hello(&rich), again.hello(&old), "the same version will do");
        assert_eq!(again.hello(&asker("2024-11-05", "{}")), None);
        assert_eq!(again.page(&old, ListKind::Tools, Some("x")), Some(br#"{"tools":[2]}"#.as_slice()));
        assert_eq!(again.page(&old, ListKind::Prompts, None), None);

        let whole = std::fs::read(&file).expect("read");
        for end in 0..whole.len() {
            std::fs::write(&file, &whole[..end]).expect("write");
            assert!(read(&file).is_none(), "cut at {end}");
        }
        std::fs::write(&file, String::from_utf8_lossy(&whole).replace("\"version\":1", "\"version\":2"))
            .expect("write");
        assert!(read(&file).is_none());
        std::fs::remove_dir_all(folder).expect("remove");
    }

    #[test]
    fn a_new_first_page_and_a_changed_list_forget_what_was_behind_them() {
        let (mut cache, client) = (Cache::default(), asker("v", "{}"));
        cache.learn_page(&client, ListKind::Tools, None, br#"{"tools":[1],"nextCursor":"x"}"#);
        cache.learn_page(&client, ListKind::Tools, Some("x"), br#"{"tools":[2]}"#);
        cache.learn_page(&client, ListKind::Tools, None, br#"{"tools":[3],"nextCursor":"y"}"#);
        assert_eq!(cache.page(&client, ListKind::Tools, Some("x")), None);
        cache.learn_page(&client, ListKind::Prompts, None, br#"{"prompts":[]}"#);
        cache.forget(ListKind::Tools);
        assert_eq!(cache.page(&client, ListKind::Tools, None), None);
        assert!(cache.page(&client, ListKind::Prompts, None).is_some());
    }
}
