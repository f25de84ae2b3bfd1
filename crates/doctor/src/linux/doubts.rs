//! Reasons why a process may still be in use although no process holds the other ends of its streams.

use std::collections::HashSet;

use nostray_sys::process::Pid;

/// The reasons to spare this process, for the evidence of a report.
pub(super) fn about(pid: Pid) -> Vec<&'static str> {
    let mut doubts = Vec::new();
    if ignores_hangup(pid) {
        doubts.push("it ignores SIGHUP, as after nohup");
    }
    if listens(pid) {
        doubts.push("it listens on a socket, by which others may use it");
    }
    doubts
}

fn ignores_hangup(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

fn listens(pid: Pid) -> bool {
    let own: HashSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let column = |line: &str, n: usize| line.split_ascii_whitespace().nth(n).map(str::to_owned);
    // As in proc(5): state 0A is LISTEN; in the list of unix sockets, the flag 0x10000 says the same.
    let internet = ["tcp", "tcp6"].into_iter().any(|name| {
        table(name).lines().any(|line| column(line, 3).as_deref() == Some("0A") && is_one_of(&own, column(line, 9)))
    });
    internet
        || table("unix").lines().any(|line| {
            let flags = column(line, 3).and_then(|flags| u32::from_str_radix(&flags, 16).ok());
            flags.is_some_and(|flags| flags & 0x1_0000 != 0) && is_one_of(&own, column(line, 6))
        })
}

fn is_one_of(own: &HashSet<String>, inode: Option<String>) -> bool {
    inode.is_some_and(|inode| own.contains(&inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_seen() {
        let me = nostray_sys::process::getpid();
        assert!(!listens(me));
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
        assert!(listens(me));
        drop(tcp);
        assert!(!listens(me));
        let path = std::env::temp_dir().join(format!("nostray-doctor-{:016x}", nostray_sys::process::random()));
        let unix = std::os::unix::net::UnixListener::bind(&path).expect("listen");
        assert!(listens(me));
        drop(unix);
        std::fs::remove_file(path).expect("tidy up");
    }
}
