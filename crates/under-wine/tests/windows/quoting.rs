//! Arguments arrive as they were given: a C program prints what its runtime has made of the command line.

use under_wine::Stage;

/// A small generator, which gives the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % end as u64).expect("small")
    }

    fn word(&mut self, alphabet: &[char]) -> String {
        (0..self.below(12)).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

fn printed(stage: &Stage, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(stage.folder().join(file)).expect("printed");
    let unit = |digits: &[u8]| u16::from_str_radix(std::str::from_utf8(digits).expect("hex"), 16).expect("hex");
    let word =
        |line: &str| String::from_utf16(&line.as_bytes().chunks(4).map(unit).collect::<Vec<_>>()).expect("text");
    text.lines().map(word).collect()
}

fn round_trip(stage: &Stage, command: &[&str], words: &[String], file: &str) {
    let mut all = vec!["run", "--no-sweep", "--"];
    all.extend(command);
    all.extend(words.iter().map(String::as_str));
    let said = stage.run("nostray.exe", &all);
    assert!(said.status.success(), "{words:?}: {said:?}");
    assert_eq!(printed(stage, file), words);
    std::fs::remove_file(stage.folder().join(file)).expect("removed");
}

#[test]
fn arguments_of_a_program() {
    let stage = Stage::new("argv");
    let (program, to) = (stage.built("badchild.exe"), stage.path("out"));
    let hard = [
        "", " ", "a b", "\"", "\\", "\\\\", "a\\", "a b\\", "\\\"", "a\\\\\"b", "\"\"", "\t", "a'b", "%PATH%", "^",
        "&calc", "|", "<>", "*.exe", "--", "-v", "ü", "日本", "😀", "a\u{a0}b",
    ];
    round_trip(&stage, &[&program, "argv", &to], &hard.map(str::to_owned), "out");
    let alphabet: Vec<char> = " \t\"\\'%^&|<>()!,;=*?~`ab/-+ü日😀".chars().collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..40 {
        let words: Vec<String> = (0..25).map(|_| random.word(&alphabet)).collect();
        round_trip(&stage, &[&program, "argv", &to], &words, "out");
    }
}

/// `npx` is such a script. A percent sign, a quote and an exclamation mark are tried on a Windows machine alone.
#[test]
fn arguments_of_a_script() {
    let stage = Stage::new("script");
    let script = format!("@\"{}\" argv \"{}\" %*\r\n", stage.built("badchild.exe"), stage.path("out"));
    let signs = if cfg!(windows) { " \"\\%^&|<>()!,;=*?~`ab/-+" } else { " \\^&|<>(),;=*?~`ab/-+" };
    let alphabet: Vec<char> = signs.chars().collect();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for end in ["cmd", "bat"] {
        let name = format!("a script.{end}");
        std::fs::write(stage.folder().join(&name), &script).expect("written");
        let path = stage.path(&name);
        for _ in 0..10 {
            let words: Vec<String> = (0..8).map(|_| random.word(&alphabet)).collect();
            round_trip(&stage, &[&path], &words, "out");
        }
    }
    // A name without an end is found by PATHEXT.
    round_trip(&stage, &[stage.path("a script").as_str()], &["a b".to_owned(), "c&d".to_owned()], "out");
}
