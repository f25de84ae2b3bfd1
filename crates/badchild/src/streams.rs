//! Programs that write too much, and an echo server.

use std::io::{BufRead, Read, Write};
use std::process::ExitCode;

use crate::{Args, Failure};

/// Sends back every line, at once: the fastest server there is.
pub(crate) fn echo() -> Result<ExitCode, Failure> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    loop {
        let waiting = input.fill_buf()?;
        if waiting.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let n = waiting.len();
        output.write_all(waiting)?;
        output.flush()?;
        input.consume(n);
    }
}

/// `flood`: fills stdout and stderr until it is killed.
pub(crate) fn flood(_: Args) -> Result<ExitCode, Failure> {
    let line = [b'x'; 4096];
    std::thread::spawn(move || while std::io::stderr().write_all(&line).is_ok() {});
    while std::io::stdout().write_all(&line).is_ok() {}
    Ok(ExitCode::SUCCESS)
}

/// `long-line BYTES`: reads one line, answers with a line of so many bytes, then waits for the end of its input.
pub(crate) fn long_line(mut args: Args) -> Result<ExitCode, Failure> {
    let bytes = args.number("a length")?;
    let mut request = String::new();
    std::io::stdin().lock().read_line(&mut request)?;
    std::io::copy(&mut std::io::repeat(b'y').take(bytes), &mut std::io::stdout())?;
    println!();
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(ExitCode::SUCCESS)
}

/// `call SOCKET LINE`: writes one line to the socket, and prints the answer. Fails if the listener refuses the connection.
pub(crate) fn call(mut args: Args) -> Result<ExitCode, Failure> {
    let mut socket = std::os::unix::net::UnixStream::connect(args.next("a path")?)?;
    socket.write_all(format!("{}\n", args.next("a line")?).as_bytes())?;
    std::io::copy(&mut socket, &mut std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// `called SOCKET LINE`: listens on the socket, prints the first client's line, answers with LINE, and ends. It removes the socket after
/// the first connection, so that another listener can bind the path at once.
pub(crate) fn called(mut args: Args) -> Result<ExitCode, Failure> {
    let path = args.next("a path")?;
    // Listen before the path exists: then every client that finds the path can connect.
    let listener = std::os::unix::net::UnixListener::bind(format!("{path}.new"))?;
    std::fs::rename(format!("{path}.new"), &path)?;
    let (mut socket, _) = listener.accept()?;
    std::fs::remove_file(path)?;
    let mut line = String::new();
    std::io::BufReader::new(&socket).read_line(&mut line)?;
    print!("{line}");
    socket.write_all(format!("{}\n", args.next("a line")?).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
