//! Giving back memory that a process which only waits does not need.

use std::ffi::c_void;

/// Drops this process's hold on the pages of program text that starting up has touched. They stay in the page
/// cache and come back by themselves when they are needed, which for a guard is at the end of its tree.
pub fn release_program_text() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for line in maps.lines() {
        if let Some((start, end)) = text_mapping(line) {
            // SAFETY: the range is a read-only executable mapping of a file. No page of it was ever written,
            // so dropping it loses nothing: the next access reads the same bytes from the file.
            unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
        }
    }
}

/// The range of a mapping that is program text from a file, from a line of `/proc/self/maps`.
fn text_mapping(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (permissions, path) = (fields.next()?, fields.nth(3)?);
    if permissions != "r-xp" || !path.starts_with('/') {
        return None;
    }
    let parse = |text| usize::from_str_radix(text, 16).ok();
    parse(start).zip(parse(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_of_files_is_released() {
        let line = |permissions: &str, path: &str| format!("1000-3000 {permissions} 00000000 08:01 42   {path}");
        assert_eq!(text_mapping(&line("r-xp", "/usr/bin/x")), Some((0x1000, 0x3000)));
        assert_eq!(text_mapping(&line("rw-p", "/usr/bin/x")), None);
        assert_eq!(text_mapping(&line("r--p", "/usr/bin/x")), None);
        assert_eq!(text_mapping(&line("r-xp", "[vdso]")), None);
        assert_eq!(text_mapping("1000-3000 r-xp 00000000 00:00 0"), None);
    }

    #[test]
    fn the_program_goes_on_afterwards() {
        release_program_text();
        assert_eq!(format!("{}", 6 * 7), "42");
    }
}
