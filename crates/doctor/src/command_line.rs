//! Command lines as reports show them: secrets masked, words quoted for a shell, long ones shortened.

pub(super) use nostray_registry::masked;
pub(super) use nostray_sys::text::escaped;

/// The most characters of a command that a line of a report shows.
const MAX_SHOWN: usize = 100;

/// Quotes the command for a shell, and masks secrets.
pub(super) fn quoted(command: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:@%+,*".contains(c);
    let quote = |word: String| {
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word } else { format!("'{}'", escaped(&word).replace('\'', r"'\''")) }
    };
    masked(command).into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// The quoted command, cut to fit a line of a report.
pub(super) fn shortened(command: &[String]) -> String {
    let whole = quoted(command);
    if whole.chars().count() <= MAX_SHOWN {
        whole
    } else {
        whole.chars().take(MAX_SHOWN - 3).chain("...".chars()).collect()
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
        assert_eq!(shortened(&words(&["ä".repeat(200).as_str()])).chars().count(), MAX_SHOWN);
    }
}
