//! supervisord and pm2: daemons that start programs again which have ended, and tell when asked. Each has a home of its own in the
//! run's folder, and goes with the value.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use badchild::{Found, Scene, User, comes_true};
use nostray_sys::Signal;

use crate::Failure;
use crate::peers::Peers;
use crate::programs::is_started_with;

/// How long one may take to end all of its children when asked to.
const TO_END: Duration = Duration::from_secs(10);

/// Which one, and where its program is.
#[derive(Clone)]
pub(crate) enum Kind {
    Supervisord(PathBuf),
    Pm2(PathBuf),
}

impl Kind {
    /// The supervisors that are installed.
    pub(crate) fn all(peers: &Peers) -> Vec<Self> {
        let supervisord = peers.supervisord.as_ref().ok().cloned().map(Self::Supervisord);
        let pm2 = peers.pm2.as_ref().ok().cloned().map(Self::Pm2);
        supervisord.into_iter().chain(pm2).collect()
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Supervisord(_) => "supervisord",
            Self::Pm2(_) => "pm2",
        }
    }

    /// By which it tells what it knows.
    pub(crate) fn question(&self) -> &'static str {
        match self {
            Self::Supervisord(_) => "supervisorctl status",
            Self::Pm2(_) => "pm2 jlist",
        }
    }

    /// Has it start so many children, with what it does by default when they end.
    pub(crate) fn start(&self, child: &[OsString], count: usize) -> Result<Supervisor, Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // A socket lies in it, whose path must be short.
        let home = std::env::temp_dir().join(format!("{}-{number}", self.name()));
        std::fs::create_dir_all(&home)?;
        let words = child.iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>().ok_or("not text")?;
        let mut supervisor = Supervisor { kind: self.clone(), scene: Scene::new(User::Current), home, daemon: None };
        match self {
            Self::Supervisord(program) => supervisor.supervisord(program, &words, count)?,
            Self::Pm2(program) => supervisor.pm2(program, &words, count)?,
        }
        Ok(supervisor)
    }
}

/// One at work.
pub(crate) struct Supervisor {
    kind: Kind,
    scene: Scene,
    home: PathBuf,
    /// None if it has left its starter.
    daemon: Option<Child>,
}

impl Supervisor {
    fn supervisord(&mut self, program: &Path, words: &[&str], count: usize) -> Result<(), Failure> {
        let home = self.home.display();
        let config = self.home.join("conf");
        std::fs::write(
            &config,
            format!(
                "[unix_http_server]\nfile={home}/socket\n\
                 [supervisord]\nnodaemon=true\nlogfile={home}/log\npidfile={home}/pid\nchildlogdir={home}\n\
                 [rpcinterface:supervisor]\n\
                 supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n\
                 [supervisorctl]\nserverurl=unix://{home}/socket\n\
                 [program:child]\ncommand={}\nnumprocs={count}\nprocess_name=%(program_name)s_%(process_num)d\n",
                words.join(" ").replace('%', "%%")
            ),
        )?;
        let mut command = self.command(program);
        command.arg("-c").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemon = Some(command.spawn()?);
        let socket = self.home.join("socket");
        if !comes_true(badchild::PATIENCE, &mut || socket.exists()) {
            return Err("supervisord does not listen".into());
        }
        Ok(())
    }

    fn pm2(&mut self, program: &Path, words: &[&str], count: usize) -> Result<(), Failure> {
        let list = self.home.join("apps.json");
        let (script, args) = words.split_first().ok_or("no command")?;
        let args = args.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(",");
        std::fs::write(
            &list,
            format!(
                "{{\"apps\":[{{\"name\":\"child\",\"script\":{script:?},\"args\":[{args}],\"interpreter\":\"none\",\
                 \"exec_mode\":\"fork\",\"instances\":{count}}}]}}"
            ),
        )?;
        let output = self.command(program).arg("start").arg(&list).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(format!("pm2 could not start: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        Ok(())
    }

    /// A command that finds this one.
    fn command(&self, program: &Path) -> Command {
        let mut command = self.scene.command(program);
        command.env("HOME", &self.home).env("PM2_HOME", &self.home).env("PM2_DISABLE_VERSION_CHECK", "true");
        command
    }

    /// Asks it what it knows.
    pub(crate) fn question(&self) -> Command {
        match &self.kind {
            Kind::Supervisord(program) => {
                let mut command = self.command(&program.with_file_name("supervisorctl"));
                command.arg("-c").arg(self.home.join("conf")).arg("status");
                command
            }
            Kind::Pm2(program) => {
                let mut command = self.command(program);
                command.arg("jlist");
                command
            }
        }
    }

    /// Those of its children that are there.
    pub(crate) fn children(&self, child: &[OsString]) -> Vec<Found> {
        let mut those = self.scene.processes();
        those.retain(|found| is_started_with(found, child));
        those
    }

    /// Its own processes.
    pub(crate) fn own(&self, child: &[OsString]) -> Vec<Found> {
        let mut own = self.scene.processes();
        own.retain(|found| !is_started_with(found, child));
        own
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // In its own way first; the scene ends what is left.
        if let Kind::Pm2(program) = &self.kind {
            self.command(program).arg("kill").stdin(Stdio::null()).output().ok();
        }
        if let Some(daemon) = &mut self.daemon {
            let found = i32::try_from(daemon.id()).ok().and_then(|number| Found::by_pid(badchild::pid(number)));
            if let Some(found) = found {
                found.send(Signal::TERM);
                comes_true(TO_END, &mut || !found.is_alive());
            }
            daemon.kill().ok();
            daemon.wait().ok();
        }
        comes_true(TO_END, &mut || self.scene.processes().is_empty());
        std::fs::remove_dir_all(&self.home).ok();
    }
}
