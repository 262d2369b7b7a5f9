//! System calls that name files: each process of a program asks its keeper before it makes one.
//!
//! A filter of the kernel (`seccomp`) holds such a call back, the keeper reads its words in the
//! memory of the process, and answers: go on, this result, or this open file. So it is told of all
//! code alike, instrumented or not, and of programs that nobody has compiled for seawall.

use libc::{c_int, c_long, pid_t, seccomp_notif, seccomp_notif_resp, sock_filter};
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::net::UnixStream;

/// The calls that are told.
pub(crate) const TOLD: [c_long; 22] = [
    libc::SYS_openat,
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_truncate,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_chmod,
];

/// Calls that may be of an open file alone: with these bits in the argument of this number.
const OF_OPEN_FILES: [(c_long, u32); 2] = [(libc::SYS_newfstatat, 3), (libc::SYS_statx, 2)];

/// The architecture whose numbers these are.
const X86_64: u32 = 0xc000_003e;
/// Longer paths are refused by the kernel.
const PATH_BYTES_MAX: usize = 4096;

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    id: u64,
    pub(crate) process: pid_t,
    pub(crate) number: c_long,
    pub(crate) words: [u64; 6],
}

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The process makes it.
    GoOn,
    /// It has been made: this is its result, negative error numbers included.
    Done(i64),
    /// It has opened this file, which is closed by `exec` or not.
    Opened(OwnedFd, bool),
}

impl Verdict {
    pub(crate) fn of(result: io::Result<i64>) -> Verdict {
        Verdict::Done(
            result.unwrap_or_else(|error| -i64::from(error.raw_os_error().unwrap_or(libc::EIO))),
        )
    }
}

impl Call {
    /// The path at an address in the memory of the process.
    pub(crate) fn path(&self, at: u64) -> Option<OsString> {
        const PIECE: u64 = 256;
        let mut path = Vec::new();
        while path.len() < PATH_BYTES_MAX {
            let from = at + path.len() as u64;
            let mut piece = [0; PIECE as usize];
            let bytes = (PIECE - from % PIECE) as usize;
            let (here, there) = (
                libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: bytes },
                libc::iovec { iov_base: from as *mut _, iov_len: bytes },
            );
            // SAFETY: at most as many bytes as there is room for are copied from there.
            let got = unsafe { libc::process_vm_readv(self.process, &here, 1, &there, 1, 0) };
            let got = piece.get(..usize::try_from(got).ok()?).filter(|got| !got.is_empty())?;
            match got.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    path.extend(&got[..end]);
                    return Some(OsString::from_vec(path));
                }
                None => path.extend(got),
            }
        }
        None
    }

    /// Writes a value to an address in the memory of the process.
    pub(crate) fn give<T>(&self, at: u64, value: &T) -> io::Result<()> {
        let (here, there) = (
            libc::iovec {
                iov_base: std::ptr::from_ref(value).cast_mut().cast(),
                iov_len: size_of::<T>(),
            },
            libc::iovec { iov_base: at as *mut _, iov_len: size_of::<T>() },
        );
        // SAFETY: only the value is read, and only the other process is written to.
        match unsafe { libc::process_vm_writev(self.process, &here, 1, &there, 1, 0) } {
            -1 => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            _ => Ok(()),
        }
    }
}

/// Makes all calls of this process that name files, and those of what it starts, wait for who has
/// the returned file.
///
/// # Errors
/// When the kernel does not do that, or somebody does it already.
pub(crate) fn tell() -> io::Result<OwnedFd> {
    let filter = filter();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // A call that a signal interrupts while it is answered would be made twice (Linux 5.19).
    for flags in [flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, flags] {
        // SAFETY: the filter is whole, and concerns this process and those that it starts.
        let fd = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        if let Ok(fd @ 0..) = RawFd::try_from(fd) {
            // SAFETY: the kernel has just made it.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Err(io::Error::last_os_error())
}

/// The program of the kernel that picks the calls.
fn filter() -> Vec<sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUALS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const HAS_BITS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    const NUMBER: u32 = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    const ARCHITECTURE: u32 = std::mem::offset_of!(libc::seccomp_data, arch) as u32;
    const WORDS: u32 = std::mem::offset_of!(libc::seccomp_data, args) as u32;
    let step = |code, k, jt, jf| sock_filter { code, jt, jf, k };
    let load = |at| step(LOAD, at, 0, 0);
    let ends = |how| step(RETURN, how, 0, 0);
    let allow = || ends(libc::SECCOMP_RET_ALLOW);
    let mut filter = vec![load(ARCHITECTURE), step(EQUALS, X86_64, 1, 0), allow(), load(NUMBER)];
    for (number, word) in OF_OPEN_FILES {
        filter.extend([
            step(EQUALS, number as u32, 0, 4),
            load(WORDS + 8 * word),
            step(HAS_BITS, libc::AT_EMPTY_PATH as u32, 0, 1),
            allow(),
            ends(libc::SECCOMP_RET_USER_NOTIF),
        ]);
    }
    for number in TOLD {
        filter.extend([step(EQUALS, number as u32, 0, 1), ends(libc::SECCOMP_RET_USER_NOTIF)]);
    }
    filter.push(allow());
    filter
}

/// Who answers.
#[derive(Debug)]
pub(crate) struct Told(OwnedFd);

impl Told {
    /// By the file that [`tell`] has given another process.
    fn new(file: OwnedFd) -> Told {
        // The one who asks and the one who answers never run at a time (Linux 6.6).
        const ON_ONE_CORE: u64 = 1;
        // SAFETY: a hint; where the kernel does not know it, nothing changes.
        unsafe {
            libc::ioctl(file.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, ON_ONE_CORE);
        }
        Told(file)
    }

    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The next call; `None` if the process is gone that has made it.
    pub(crate) fn next(&self) -> Option<Call> {
        let mut call = MaybeUninit::<seccomp_notif>::zeroed();
        // SAFETY: all zeros is what the kernel wants there, and what it fills.
        let call = unsafe {
            let got =
                libc::ioctl(self.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, call.as_mut_ptr());
            if got != 0 {
                return None;
            }
            call.assume_init()
        };
        Some(Call {
            id: call.id,
            process: call.pid as pid_t,
            number: call.data.nr.into(),
            words: call.data.args,
        })
    }

    /// Answers; nobody minds if the process is gone.
    pub(crate) fn answer(&self, call: &Call, verdict: &Verdict) {
        let (val, flags) = match verdict {
            Verdict::GoOn => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Verdict::Done(result) => (*result, 0),
            Verdict::Opened(file, is_closed) => match self.give(call, file, *is_closed) {
                Ok(fd) => (fd, 0),
                Err(error) => (-i64::from(error.raw_os_error().unwrap_or(libc::EIO)), 0),
            },
        };
        let error = if val < 0 { val as i32 } else { 0 };
        let response = seccomp_notif_resp { id: call.id, val: val.max(0), error, flags };
        // SAFETY: the response is whole.
        unsafe {
            libc::ioctl(self.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response);
        }
    }

    /// Gives the process an open file; returns its number there.
    fn give(&self, call: &Call, file: &OwnedFd, is_closed: bool) -> io::Result<i64> {
        let given = libc::seccomp_notif_addfd {
            id: call.id,
            flags: 0,
            srcfd: file.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if is_closed { libc::O_CLOEXEC as u32 } else { 0 },
        };
        // SAFETY: what is given is whole.
        let fd = unsafe {
            libc::ioctl(self.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const given)
        };
        checked(fd.into()).map(i64::from)
    }
}

/// Sends who is to answer the file for it, or word that there is none.
pub(crate) fn send(to: &UnixStream, file: Option<&OwnedFd>) -> io::Result<()> {
    let mut message = Message::new();
    // SAFETY: the message is whole, and has room for the number of one file.
    unsafe {
        let header = message.header();
        if let Some(file) = file {
            let part = libc::CMSG_FIRSTHDR(&raw const *header);
            (*part).cmsg_level = libc::SOL_SOCKET;
            (*part).cmsg_type = libc::SCM_RIGHTS;
            (*part).cmsg_len = libc::CMSG_LEN(FILE_BYTES) as usize;
            std::ptr::write_unaligned(libc::CMSG_DATA(part).cast(), file.as_raw_fd());
        } else {
            header.msg_controllen = 0;
        }
        checked(libc::sendmsg(to.as_raw_fd(), header, 0) as c_long).map(drop)
    }
}

/// Who answers, once he has got the file for it; `None` if there is none.
pub(crate) fn receive(from: &UnixStream) -> io::Result<Option<Told>> {
    let mut message = Message::new();
    // SAFETY: as above; the kernel says what it has filled.
    unsafe {
        let header = message.header();
        let flags = libc::MSG_CMSG_CLOEXEC;
        match libc::recvmsg(from.as_raw_fd(), header, flags) {
            1 => {}
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => return Err(io::Error::last_os_error()),
        }
        let part = libc::CMSG_FIRSTHDR(&raw const *header);
        if part.is_null() {
            return Ok(None);
        }
        let file: RawFd = std::ptr::read_unaligned(libc::CMSG_DATA(part).cast());
        Ok(Some(Told::new(OwnedFd::from_raw_fd(file))))
    }
}

/// Bytes of the number of a file.
const FILE_BYTES: u32 = size_of::<c_int>() as u32;

/// A byte that may come with a file.
struct Message {
    byte: u8,
    piece: libc::iovec,
    control: [u64; 8],
    header: MaybeUninit<libc::msghdr>,
}

impl Message {
    fn new() -> Message {
        let piece = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
        Message { byte: 0, piece, control: [0; 8], header: MaybeUninit::zeroed() }
    }

    /// What the kernel is told of it, which is good for as long as it stays where it is.
    fn header(&mut self) -> &mut libc::msghdr {
        self.piece.iov_base = (&raw mut self.byte).cast();
        let (piece, control) = (&raw mut self.piece, &raw mut self.control);
        // SAFETY: all zeros are a message without anything.
        let header = unsafe { self.header.assume_init_mut() };
        header.msg_iov = piece;
        header.msg_iovlen = 1;
        header.msg_control = control.cast();
        // SAFETY: it only computes.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(FILE_BYTES) } as usize;
        header
    }
}

fn checked(result: c_long) -> io::Result<c_int> {
    match c_int::try_from(result) {
        Ok(result @ 0..) => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}
