//! Behind a launcher (`npx nostray run …`) the host is the process that started the launcher. Launchers and host are watched, with real
//! launchers: npx, uvx, pipx, pnpm and shells.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use badchild::{Bystanders, Folder, Found, Host, PATIENCE, Scene, User, badchild, wait_until};
use nostray_sys::Signal;
use testkit::peers::Kit;
use testkit::{GRACES, in_parallel, nostray, own_processes, run_words};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Launcher {
    Npx,
    Pnpm,
    Uvx,
    /// Becomes the program that it launches.
    Pipx,
    Shell,
    /// A shell that starts npx, which starts a shell.
    ShellWithNpx,
}

impl Launcher {
    const ALL: [Self; 6] = [Self::Npx, Self::Pnpm, Self::Uvx, Self::Pipx, Self::Shell, Self::ShellWithNpx];

    /// How many processes of it stay while the program runs.
    fn processes(self) -> usize {
        match self {
            Self::Pipx => 0,
            Self::Pnpm | Self::Uvx | Self::Shell => 1,
            Self::Npx => 2,
            Self::ShellWithNpx => 3,
        }
    }

    /// A command that starts nostray with these words by the launcher. `home` is a folder for the launcher's own files.
    fn command(self, packages: &Packages, home: &Path, words: &[String]) -> Vec<String> {
        let launchers = |program: &str| packages.launchers.join(program).display().to_string();
        let (tarball, wheel) = (packages.tarball.display().to_string(), packages.wheel.display().to_string());
        let npx = || vec!["npx".to_owned(), "--offline".into(), "-y".into(), format!("--package={tarball}")];
        let (launcher, program): (Vec<String>, _) = match self {
            Self::Npx => (npx(), "nostray".to_owned()),
            Self::Pnpm => {
                (vec![launchers("node_modules/.bin/pnpm"), "-s".into(), "dlx".into()], format!("file:{tarball}"))
            }
            Self::Uvx => {
                (vec![launchers("bin/uvx"), "--offline".into(), "--from".into(), wheel], "nostray".to_owned())
            }
            Self::Pipx => (vec![launchers("bin/pipx"), "run".into(), "--spec".into(), wheel], "nostray".to_owned()),
            Self::Shell => return vec!["dash".into(), "-c".into(), quoted(&nostray(), words)],
            Self::ShellWithNpx => {
                let npx = npx().into_iter().chain(["nostray".to_owned()]).collect::<Vec<_>>().join(" ");
                let script = format!("cd / && export A=b; {}", quoted(Path::new(&npx), words));
                return with_home(home, vec!["dash".into(), "-c".into(), script]);
            }
        };
        with_home(home, launcher.into_iter().chain([program]).chain(words.iter().cloned()).collect())
    }
}

fn with_home(home: &Path, words: Vec<String>) -> Vec<String> {
    let variables = [
        format!("HOME={}", home.display()),
        "npm_config_update_notifier=false".to_owned(),
        // Nothing is fetched: a launcher has all that it needs.
        "PIP_NO_INDEX=1".to_owned(),
        "UV_PYTHON_DOWNLOADS=never".to_owned(),
    ];
    let unset = ["XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "VIRTUAL_ENV"];
    let unset = unset.iter().flat_map(|name| ["-u".to_owned(), (*name).to_owned()]);
    ["env".to_owned()].into_iter().chain(unset).chain(variables).chain(words).collect()
}

fn quoted(program: &Path, words: &[String]) -> String {
    let words = words.iter().map(|word| format!("'{word}'"));
    std::iter::once(program.display().to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Packages with the program under test, as npm and pip install them.
struct Packages {
    launchers: PathBuf,
    tarball: PathBuf,
    wheel: PathBuf,
}

/// `None` where a tool is missing, and the tests are skipped.
fn packages() -> Option<Packages> {
    static FOLDER: Mutex<Option<Folder>> = Mutex::new(None);
    let launchers = Kit::Launchers.folder()?;
    let mut made = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = made.get_or_insert_with(|| pack(Folder::new("packages"))).path();
    let (tarball, wheel) = (folder.join("nostray-1.0.0.tgz"), folder.join("nostray-1.0.0-py3-none-any.whl"));
    Some(Packages { launchers, tarball, wheel })
}

/// The packages have the shim that starts the program under test: `exec` leaves no process between it and the launcher.
fn pack(folder: Folder) -> Folder {
    let package = folder.path().join("npm");
    fs::create_dir(&package).expect("make a folder");
    let shim = package.join("nostray");
    fs::write(&shim, format!("#!/bin/sh\nexec '{}' \"$@\"\n", nostray().display())).expect("write");
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).expect("chmod");
    let description = r#"{"name": "nostray", "version": "1.0.0", "bin": {"nostray": "nostray"}}"#;
    fs::write(package.join("package.json"), description).expect("write");
    let wheel = "import sys, zipfile\n\
        name, info = 'nostray-1.0.0', 'nostray-1.0.0.dist-info/'\n\
        files = {name + '.data/scripts/nostray': open('nostray').read(),\n\
                 info + 'METADATA': 'Metadata-Version: 2.1\\nName: nostray\\nVersion: 1.0.0\\n',\n\
                 info + 'WHEEL': 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: false\\nTag: py3-none-any\\n'}\n\
        files[info + 'RECORD'] = ''.join(f'{file},,\\n' for file in [*files, info + 'RECORD'])\n\
        with zipfile.ZipFile('../' + name + '-py3-none-any.whl', 'w') as wheel:\n    \
            for file, text in files.items():\n        \
                entry = zipfile.ZipInfo(file)\n        \
                entry.external_attr = 0o100755 << 16\n        \
                wheel.writestr(entry, text)\n";
    for (program, words) in
        [("npm", &["pack", "--silent", "--offline", "--pack-destination", ".."][..]), ("python3", &["-c", wheel])]
    {
        let packed = Command::new(program).args(words).current_dir(&package).output().expect("start");
        assert!(packed.status.success(), "{program}: {}", String::from_utf8_lossy(&packed.stderr));
    }
    folder
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    HostExits,
    HostKilled,
    HostKilledWhileAnotherHoldsThePipe,
    OutermostLauncherKilled,
    InnermostLauncherKilled,
    FrontKilled,
}

impl Event {
    const ALL: [Self; 6] = [
        Self::HostExits,
        Self::HostKilled,
        Self::HostKilledWhileAnotherHoldsThePipe,
        Self::OutermostLauncherKilled,
        Self::InnermostLauncherKilled,
        Self::FrontKilled,
    ];
}

/// Options of a child that is not supervised, and of one that is.
const PATHS: [&[&str]; 2] = [&[], &["--respawn"]];

#[test]
fn behind_a_launcher_nothing_is_left_and_no_other_process_is_touched() {
    let Some(packages) = packages() else { return };
    let bystanders = Bystanders::start(User::Current);
    let cells = Launcher::ALL.into_iter().flat_map(|launcher| {
        Event::ALL.into_iter().filter_map(move |event| {
            let kills_launcher = [Event::OutermostLauncherKilled, Event::InnermostLauncherKilled].contains(&event);
            (launcher.processes() > 0 || !kills_launcher).then_some((launcher, event))
        })
    });
    in_parallel(cells.collect(), |(launcher, event)| {
        let cell = std::panic::AssertUnwindSafe(|| play(&packages, launcher, event));
        if let Err(panic) = std::panic::catch_unwind(cell) {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("{launcher:?}, {event:?}: {text}");
        }
    });
    bystanders.expect_untouched();
}

fn play(packages: &Packages, launcher: Launcher, event: Event) {
    let (scene, home) = (Scene::new(User::Current), Folder::new("home"));
    let words = &run_words(&GRACES, &["tree", "stubborn", "daemon"])[1..];
    let command = launcher.command(packages, home.path(), words);
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    // Where the host ends and no other process holds the pipe, the end of the pipe alone would be enough.
    let options: &[&str] = if [Event::HostExits, Event::HostKilled].contains(&event) { &[] } else { &["--hold"] };
    let mut host = Host::start(&scene, options, &command);
    let outermost = host.ready();
    let front = own_processes(&scene).front;
    let launchers = ancestors_below(&front, &host);
    assert_eq!(launchers.len(), launcher.processes(), "{launchers:#?}");
    match event {
        Event::HostExits => host.order("exit"),
        Event::HostKilled | Event::HostKilledWhileAnotherHoldsThePipe => host.kill(),
        Event::OutermostLauncherKilled => outermost.send(Signal::KILL),
        Event::InnermostLauncherKilled => launchers[0].send(Signal::KILL),
        Event::FrontKilled => front.send(Signal::KILL),
    }
    if ![Event::HostExits, Event::HostKilled, Event::HostKilledWhileAnotherHoldsThePipe].contains(&event) {
        wait_until("only the host is left", || scene.processes().len() <= 1);
        host.order("exit");
    }
    scene.expect_empty_within(PATIENCE);
    host.expect_friend_untouched();
}

/// The launchers between a front and its host, the innermost first.
fn ancestors_below(front: &Found, host: &Host) -> Vec<Found> {
    let parent = |found: &Found| found.stat.parent.filter(|pid| *pid != host.pid()).and_then(Found::by_pid);
    std::iter::successors(parent(front), parent).collect()
}

/// The processes that a process holds handles on, except for nostray's own.
fn watched_by(process: &Found, scene: &Scene) -> BTreeSet<i32> {
    let own = own_processes(scene);
    let own = [&own.front, &own.spare, &own.guard].map(|found| found.stat.pid.as_raw_nonzero().get());
    let files = fs::read_dir(format!("/proc/{}/fdinfo", process.stat.pid)).expect("its files").flatten();
    let infos = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let numbers =
        infos.filter_map(|info| info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok());
    numbers.filter(|number| *number > 0 && !own.contains(number)).collect()
}

/// Which ancestors the guard watches when nostray is started by these words, from the inside out, counted from 1: its parent.
fn watched_ancestors(command: &[&str]) -> Vec<usize> {
    let scene = Scene::new(User::Current);
    let mut host = Host::start(&scene, &[], command);
    host.ready();
    let own = own_processes(&scene);
    let watched = watched_by(&own.guard, &scene);
    let parent = |found: &Found| found.stat.parent.and_then(Found::by_pid);
    let ancestors = std::iter::successors(parent(&own.front), parent);
    let numbers = ancestors.zip(1..).filter(|(found, _)| watched.contains(&found.stat.pid.as_raw_nonzero().get()));
    let numbers = numbers.map(|(_, number)| number).collect();
    host.order("exit");
    scene.expect_empty_within(PATIENCE);
    numbers
}

/// A shell that does more than start one program has a life of its own: it is the host.
#[test]
fn only_what_launches_is_looked_past() {
    let run = run_words(&GRACES, &["tree", "cooperative", "plain"]).join(" ");
    let run = run.as_str();
    let shell = |script: &str| ["dash", "-c", script].map(str::to_owned).to_vec();
    let inner = format!("dash -c '{run}'");
    let host_program = "import subprocess, sys; subprocess.run(sys.argv[1:])";
    let cases: [(&str, Vec<String>, &[usize]); 9] = [
        ("no launcher", run.split(' ').map(str::to_owned).collect(), &[1]),
        ("one command", shell(run), &[1, 2]),
        ("what the shell does itself comes first", shell(&format!("cd / && umask 022; A=b {run} 2>&1")), &[1, 2]),
        ("launchers behind each other", shell(&inner), &[1, 2, 3]),
        ("more follows", shell(&format!("{run}; true")), &[1]),
        ("more follows if it fails", shell(&format!("{run} || true")), &[1]),
        ("a pipeline", shell(&format!("{run} | cat")), &[1]),
        ("in the background", shell(&format!("exec 3<&0; {run} <&3 & wait")), &[1]),
        (
            "a host that was started by a launcher",
            ["dash", "-c", &format!("python3 -c '{host_program}' {run}")].map(str::to_owned).to_vec(),
            &[1],
        ),
    ];
    in_parallel(cases.into_iter().collect(), |(what, command, expected)| {
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        assert_eq!(watched_ancestors(&command), expected, "{what}: {command:?}");
    });
}

/// `ps` names the host, and the journal the launcher that ended.
#[test]
fn the_record_names_the_host_and_the_journal_the_launcher() {
    for path in PATHS {
        let scene = Scene::apart(User::Current);
        let manner: &[&str] = if path.is_empty() { &["tree", "cooperative", "plain"] } else { &["server"] };
        let options: Vec<_> = GRACES.iter().chain(path).copied().collect();
        let script = run_words(&options, manner).join(" ");
        let mut host = Host::start(&scene, &["--hold"], &["dash", "-c", &script]);
        let call = |words: &[&str]| {
            let output = scene.command(&nostray()).args(words).output().expect("run");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let named = format!("\"host\":{{\"pid\":{},", host.pid());
        wait_until("ps names the host", || {
            let listed = call(&["ps", "--json"]).replace([' ', '\n'], "");
            listed.contains(&named) && listed.contains("\"child\":{\"pid\":")
        });
        let shell = scene.processes().into_iter().find(|found| found.stat.name == "dash");
        shell.expect("the launcher").send(Signal::KILL);
        wait_until("only the host is left", || scene.processes().len() <= 1);
        let story = call(&["log"]);
        assert!(story.contains("launcher"), "{path:?}: {story}");
        host.order("exit");
        scene.expect_empty_within(PATIENCE);
    }
}

/// `share`, `hold` and a supervised child end with a host behind a launcher as well.
#[test]
fn all_ways_to_run_look_past_launchers() {
    let server = badchild().display().to_string();
    let ways: [(&str, &[&str], &[&str]); 3] = [
        ("run --respawn", &["run", "--respawn"], &["server"]),
        ("share", &["share", "--linger", "0s"], &["server"]),
        ("hold", &["hold", "--key", "launched", "--linger", "0s"], &["pause"]),
    ];
    for (what, words, manner) in ways {
        let scene = Scene::apart(User::Current);
        let words: Vec<_> =
            words.iter().chain(&GRACES[2..]).chain(&["--", server.as_str()]).chain(manner).copied().collect();
        let script = format!("{} {}", nostray().display(), words.join(" "));
        let mut host = Host::start(&scene, &["--hold"], &["dash", "-c", &script]);
        if manner == ["server"] {
            host.say(
                r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}"#,
            );
        }
        let child = format!("{server} {}", manner[0]);
        wait_until("the child runs", || scene.processes().iter().any(|found| found.command.starts_with(&child)));
        host.kill();
        // The broker ends by itself, later.
        wait_until(what, || scene.processes().iter().all(|found| found.command.contains(" broker serve ")));
    }
}

/// The host is killed while npx starts, which takes a moment: npx is left with a reaper, and nothing is started.
#[test]
fn a_host_that_is_killed_while_its_launcher_starts_leaves_nothing() {
    let Some(packages) = packages() else { return };
    let (scene, home) = (Scene::new(User::Current), Folder::new("home"));
    let words = &run_words(&GRACES, &["tree", "stubborn", "daemon"])[1..];
    for launcher in [Launcher::Npx, Launcher::Uvx] {
        let command = launcher.command(&packages, home.path(), words);
        let me = badchild();
        let mut leader = scene.command(&me);
        // In a session of its own: that of the test may be that of the reaper.
        leader.args(["leader", "--"]).arg(&me).args(["host", "--hold", "--"]).args(&command);
        let errors = home.path().join("errors");
        leader.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(fs::File::create(&errors).expect("make a file"));
        let mut host = leader.spawn().expect("start");
        let mut output = host.stdout.take().expect("piped");
        let mut first = [0; 6];
        output.read_exact(&mut first).expect("the host says that the launcher was started");
        assert_eq!(&first, b"front ");
        host.kill().expect("kill the host");
        host.wait().expect("reap the host");
        // The friend of the host, which holds the pipe, stays.
        wait_until("only the friend is left", || {
            scene.processes().iter().all(|found| found.command.ends_with(" pause"))
        });
        let mut said = String::new();
        output.read_to_string(&mut said).expect("read");
        assert!(!said.contains("ready"), "{launcher:?}: the child was started");
        let said = fs::read_to_string(&errors).expect("read");
        assert!(said.contains("the host that started this command had already ended"), "{launcher:?}: {said}");
    }
}
