//! What must hold for any bytes: an edit is refused, or it changes one entry and can be taken back to the same bytes.

use nostray_wrap::hosts::{ANY, Shape};
use nostray_wrap::{Entry, Format, Prefix, Target, Way, Wrapping, read, recognise, unwrap, wrap, written_by_wrap};

/// How many entries were wrapped.
pub(crate) fn there_and_back(bytes: &[u8], format: Format, splits: bool, prefix: &Prefix) -> usize {
    let shape = Shape { splits, ..ANY };
    let Ok(entries) = read(bytes, format, shape) else { return 0 };
    let mut count = 0;
    for entry in &entries {
        let target = Target::of(entry);
        if entries.iter().filter(|other| Target::of(other) == target).count() > 1 {
            continue;
        }
        let was = recognise(&entry.words, &written_by_wrap);
        let Ok(wrapped) = wrap(bytes, format, shape, &target, prefix, &written_by_wrap) else { continue };
        let again = wrap(&wrapped, format, shape, &target, prefix, &written_by_wrap)
            .expect("what was wrapped can be wrapped");
        assert!(again == wrapped, "twice is not once: {}", shown(&wrapped));
        let after = read(&wrapped, format, shape).expect("what was written can be read");
        assert_eq!(after.len(), entries.len(), "{}", shown(&wrapped));
        for (one, two) in entries.iter().zip(&after) {
            assert_eq!(
                (&one.name, &one.project, &one.env),
                (&two.name, &two.project, &two.env),
                "{}",
                shown(&wrapped)
            );
            if Target::of(one) == target {
                assert!(ends_with(two, one, &was), "{:?} became {:?}", one.words, two.words);
            } else {
                assert_eq!(one.words, two.words, "another entry has changed: {}", shown(&wrapped));
            }
        }
        let back =
            unwrap(&wrapped, format, shape, &target, &written_by_wrap).expect("what was wrapped can be unwrapped");
        if was == Wrapping::None {
            count += 1;
            assert!(back == bytes, "{}\nbecame\n{}\nby way of\n{}", shown(bytes), shown(&back), shown(&wrapped));
        }
    }
    count
}

/// Whether the words of a wrapped entry are some of nostray and those of the server.
fn ends_with(wrapped: &Entry, bare: &Entry, was: &Wrapping) -> bool {
    let Wrapping::Direct(now) = recognise(&wrapped.words, &written_by_wrap) else { return false };
    let words = match was {
        Wrapping::Direct(before) => &bare.words[before.own..],
        _ => &bare.words,
    };
    &wrapped.words[now.own..] == words
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every way of wrapping.
pub(crate) fn prefixes() -> Vec<Prefix> {
    let prefix = |program: &str, way, options: &str| Prefix {
        program: program.to_owned(),
        way,
        options: options.split_whitespace().map(str::to_owned).collect(),
    };
    vec![
        prefix("nostray", Way::Run, ""),
        prefix("/opt/my tools/nostray", Way::Run, "--lazy --hibernate 10m"),
        prefix("/usr/local/bin/nostray", Way::Share, "--any-dir --share-env A,B_C"),
    ]
}

/// Every format.
pub(crate) const FORMATS: [Format; 4] = [Format::Json, Format::Json5, Format::Toml, Format::Yaml];
