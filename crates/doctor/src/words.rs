//! Command lines as they may be shown: without secrets, quoted, and shortened.

pub(super) use nostray_registry::masked;
pub(super) use nostray_sys::text::escaped;

/// How much of a command line a person needs to recognise it.
const SHORT: usize = 100;

/// As one could type it, without secrets.
pub(super) fn quoted(command: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:@%+,*".contains(c);
    let quote = |word: String| {
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word } else { format!("'{}'", escaped(&word).replace('\'', r"'\''")) }
    };
    masked(command).into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// A command in one line of a report.
pub(super) fn shortened(command: &[String]) -> String {
    let whole = quoted(command);
    if whole.chars().count() <= SHORT { whole } else { whole.chars().take(SHORT - 3).chain("...".chars()).collect() }
}

/// A time as people say it.
pub(super) fn age(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_typed_and_does_not_steer_a_terminal() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(quoted(&words(&["sh", "-c", "a b", "", "it's"])), r"sh -c 'a b' '' 'it'\''s'");
        assert_eq!(quoted(&words(&["a\x1b[2J"])), r"'a\u{1b}[2J'");
        assert_eq!(shortened(&words(&["ä".repeat(200).as_str()])).chars().count(), SHORT);
    }
}
