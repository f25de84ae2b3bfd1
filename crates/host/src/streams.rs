//! The host's ends of a child's streams. They belong to no runtime until they are first used in one.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[cfg(feature = "supervisor")]
use tokio::net::unix::pipe::{Receiver, Sender};

/// The host's end of a child's stdin. Dropping it asks the child to end.
///
/// With the feature `supervisor` it is a [`tokio::io::AsyncWrite`](https://docs.rs/tokio/1/tokio/io/trait.AsyncWrite.html). For other
/// runtimes, and without one, take its descriptor by [`Stdin::into_std`].
#[derive(Debug)]
pub struct Stdin(InputEnd);

/// The host's end of a child's stdout or stderr.
///
/// With the feature `supervisor` it is a [`tokio::io::AsyncRead`](https://docs.rs/tokio/1/tokio/io/trait.AsyncRead.html). For other
/// runtimes, and without one, take its descriptor by [`Stdout::into_std`].
#[derive(Debug)]
pub struct Stdout(OutputEnd);

/// The host's end of a child's stderr.
pub type Stderr = Stdout;

macro_rules! end {
    ($name:ident, $end:ident, $standard:ident, $registered:ident) => {
        #[derive(Debug)]
        enum $end {
            Plain(OwnedFd),
            /// With a runtime.
            #[cfg(feature = "supervisor")]
            Registered($registered),
        }

        impl $name {
            pub(crate) fn new(fd: OwnedFd) -> Self {
                Self($end::Plain(fd))
            }

            /// The same pipe as the standard library's, in blocking mode.
            pub fn into_std(self) -> io::Result<$standard> {
                match self.0 {
                    $end::Plain(fd) => Ok(fd.into()),
                    #[cfg(feature = "supervisor")]
                    $end::Registered(pipe) => pipe.into_blocking_fd().map($standard::from),
                }
            }

            /// The same pipe as tokio's. To be called in a runtime.
            #[cfg(feature = "supervisor")]
            pub fn into_tokio(self) -> io::Result<$registered> {
                match self.0 {
                    $end::Plain(fd) => in_tokio::register(fd, $registered::from_owned_fd),
                    $end::Registered(pipe) => Ok(pipe),
                }
            }

            /// Registers it with the runtime in which it is first used.
            #[cfg(feature = "supervisor")]
            fn registered(&mut self) -> io::Result<std::pin::Pin<&mut $registered>> {
                if let $end::Plain(fd) = &self.0 {
                    self.0 = $end::Registered(in_tokio::register(fd.try_clone()?, $registered::from_owned_fd)?);
                }
                match &mut self.0 {
                    $end::Registered(pipe) => Ok(std::pin::Pin::new(pipe)),
                    $end::Plain(_) => Err(io::ErrorKind::NotConnected.into()),
                }
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                match &self.0 {
                    $end::Plain(fd) => fd.as_fd(),
                    #[cfg(feature = "supervisor")]
                    $end::Registered(pipe) => pipe.as_fd(),
                }
            }
        }
    };
}

end!(Stdin, InputEnd, PipeWriter, Sender);
end!(Stdout, OutputEnd, PipeReader, Receiver);

#[cfg(feature = "supervisor")]
mod in_tokio {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::{Stdin, Stdout};

    /// An error outside of a runtime, where tokio would panic.
    pub(super) fn register<T>(fd: OwnedFd, make: fn(OwnedFd) -> io::Result<T>) -> io::Result<T> {
        tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        make(fd)
    }

    impl AsyncWrite for Stdin {
        fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.registered()?.poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.registered()?.poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.registered()?.poll_shutdown(context)
        }
    }

    impl AsyncRead for Stdout {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.registered()?.poll_read(context, buffer)
        }
    }
}
