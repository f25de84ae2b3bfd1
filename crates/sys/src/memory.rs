//! Giving back memory that a process which only waits does not need.

use std::ffi::c_void;

/// Drops this process's hold on the pages of programs and libraries that it only reads, most of which only starting up
/// has touched. They stay in the page cache and come back by themselves when they are needed, which for a guard is at
/// the end of its tree.
pub fn release_program_pages() {
    // SAFETY: the callback has the signature that is asked for and keeps nothing of what it is given.
    unsafe { libc::dl_iterate_phdr(Some(release), std::ptr::null_mut()) };
}

/// Called for the program and for each library that it has loaded.
unsafe extern "C" fn release(object: *mut libc::dl_phdr_info, _size: usize, _data: *mut c_void) -> libc::c_int {
    // SAFETY: the loader passes a description that is valid during the call, with as many headers as it says.
    let (base, headers) = unsafe {
        let object = &*object;
        (object.dlpi_addr, std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    let page = rustix::param::page_size() as u64;
    for header in headers {
        let start = (base + header.p_vaddr).next_multiple_of(page);
        let end = (base + header.p_vaddr + header.p_memsz) / page * page;
        if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0 && start < end {
            // SAFETY: a segment without the write flag is mapped from its file and was never written, so dropping a
            // page of it loses nothing: the next access reads the same bytes. (What the loader itself relocates lies
            // in segments that have the flag, also where it is taken away later.)
            unsafe { libc::madvise(start as *mut c_void, (end - start) as usize, libc::MADV_DONTNEED) };
        }
    }
    0
}

/// Gives memory back that this program has freed: the C library keeps it for the next time, which may never come.
pub fn release_free() {
    // SAFETY: the call only touches the allocator's own lists, under its own lock.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_program_goes_on_afterwards() {
        super::release_program_pages();
        assert_eq!(format!("{}", 6 * 7), "42");
    }
}
