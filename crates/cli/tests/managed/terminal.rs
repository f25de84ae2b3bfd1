//! A supervised child on a terminal, where a user types JSON: keys end the session or stop the job, and a closed
//! terminal ends everything, in every state of the child.

use badchild::{Found, badchild, wait_until};
use testkit::nostray;
use testkit::person::Person;
use testkit::stage::Stage;

const CTRL_C: &str = "\x03";
const CTRL_BACKSLASH: &str = "\x1c";
const CTRL_Z: &str = "\x1a";

/// The words of a supervised server.
fn words_of_server(stage: &Stage, options: &[&str]) -> Vec<String> {
    let mut words = vec![nostray().display().to_string()];
    words.extend(["run", "--respawn", "--eof-grace", "10s", "--term-grace", "10s"].map(str::to_owned));
    words.extend(options.iter().map(|word| (*word).to_owned()));
    words.extend(["--".to_owned(), badchild().display().to_string()]);
    words.extend(["server".to_owned(), "--plain".to_owned(), "--record".to_owned(), stage.file("record")]);
    words
}

fn asks(person: &mut Person, id: u32, method: &str) {
    person.types(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"}}\n"));
    person.sees(&format!("\"id\":{id},\"result\""));
}

#[test]
fn keys_end_the_session_in_every_state_of_the_child() {
    for (key, code) in [(CTRL_C, 130), (CTRL_BACKSLASH, 131)] {
        for asleep in [false, true] {
            let stage = Stage::new();
            let words = words_of_server(&stage, if asleep { &["--hibernate", "50ms"] } else { &[] });
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut person = Person::starts(&stage.scene, &words);
            asks(&mut person, 1, "who");
            if asleep {
                stage.wait_until_asleep();
            }
            let lives = stage.lives().len();
            person.types(key);
            assert_eq!(person.exit_code(), Some(code), "asleep: {asleep}");
            stage.scene.expect_empty();
            assert_eq!(stage.lives().len(), lives, "asleep: {asleep}: another child was started");
        }
    }
}

#[test]
fn a_closed_terminal_ends_everything_in_every_state_of_the_child() {
    for asleep in [false, true] {
        let stage = Stage::new();
        let words = words_of_server(&stage, if asleep { &["--hibernate", "50ms"] } else { &[] });
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut person = Person::starts(&stage.scene, &words);
        asks(&mut person, 1, "who");
        if asleep {
            stage.wait_until_asleep();
        }
        let lives = stage.lives().len();
        let Person { master, mut process, .. } = person;
        drop(master);
        stage.scene.expect_empty();
        process.wait().expect("reap");
        assert_eq!(stage.lives().len(), lives, "asleep: {asleep}: another child was started");
    }
}

/// A shell sees a stopped job, and continues it.
#[test]
fn a_job_can_be_stopped_and_continued_in_every_state_of_the_child() {
    for asleep in [false, true] {
        let stage = Stage::new();
        let words = words_of_server(&stage, if asleep { &["--hibernate", "100ms"] } else { &[] }).join(" ");
        let mut person = Person::starts(&stage.scene, &["bash", "--norc", "--noprofile", "-i"]);
        person.sees("prompt> ");
        person.types(&format!("{words}\n"));
        wait_until("the server is there", || !stage.lives().is_empty());
        asks(&mut person, 1, "who");
        if asleep {
            wait_until("the child is asleep", || stage.states() == ["asleep"]);
        }
        person.types(CTRL_Z);
        person.sees("Stopped");
        let stopped = |found: &Found| nostray_sys::proc::Stat::of(found.stat.pid).is_some_and(|s| s.is_stopped());
        let front = || stage.own().into_iter().find(|found| found.stat.name == "nostray").expect("is there");
        wait_until("the front is stopped", || stopped(&front()));
        person.sees("prompt> ");
        person.types("fg\n");
        wait_until("all nostray processes are continued", || stage.own().iter().all(|found| !stopped(found)));
        // A shell reports that it continues a job before it makes it the terminal's foreground group.
        wait_until("the front has the terminal", || {
            badchild::foreground_group(&person.master) == Some(front().stat.pid)
        });
        asks(&mut person, 2, "who");
        if asleep {
            // Wait: a child that just ends by the end of its input would give its own exit code.
            wait_until("the child is asleep again", || stage.states() == ["asleep"]);
        }
        person.types(CTRL_C);
        person.sees("prompt> ");
        person.types("exit $?\n");
        assert_eq!(person.exit_code(), Some(130), "asleep: {asleep}");
        stage.scene.expect_empty();
    }
}
