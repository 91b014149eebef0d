"""Lets Poise see a Python for Windows; Python imports this at its start where its folder stands in PYTHONPATH.

`sys.platform`, `os.name`, and what the standard library lacks there are as on Windows for code of `poise` alone: the
standard library and other packages have builds of their own for Windows, and go on as they are. Child processes see
the same. What it cannot show: how Windows itself treats files, paths and signals.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import signal
import socket
import sys
import time
import types
import warnings
from typing import Any

MODULES = {
    "crypt", "curses", "fcntl", "grp", "nis", "posix", "pty", "pwd", "readline", "resource", "spwd", "syslog",
    "termios", "tty", "uvloop",
}  # fmt: skip
"""Modules that there are not on Windows."""

OS = [
    "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "P_ALL", "P_PID", "WEXITED", "WNOHANG",
    "chown", "chroot", "confstr", "ctermid", "eventfd", "fchdir", "fchmod", "fchown", "fdatasync", "fork",
    "forkpty", "fstatvfs", "getegid", "geteuid", "getgid", "getgroups", "getloadavg", "getpgid", "getpgrp",
    "getpriority", "getresuid", "getsid", "getuid", "initgroups", "killpg", "lchown", "lockf", "major", "makedev",
    "memfd_create", "minor", "mkfifo", "mknod", "nice", "openpty", "pathconf", "pipe2", "posix_fadvise",
    "posix_fallocate", "posix_spawn", "posix_spawnp", "pread", "preadv", "pwrite", "pwritev", "readv",
    "register_at_fork", "sched_getaffinity", "sched_getparam", "sched_setaffinity", "sched_setscheduler",
    "sched_yield", "sendfile", "setegid", "seteuid", "setgid", "setgroups", "setpgid", "setpriority", "setsid",
    "setuid", "splice", "statvfs", "sync", "sysconf", "tcgetpgrp", "tcsetpgrp", "ttyname", "uname", "wait", "wait3",
    "wait4", "waitid", "writev",
]  # fmt: skip

SIGNAL = [
    "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGIO", "SIGKILL", "SIGPIPE", "SIGPROF", "SIGQUIT",
    "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIG_BLOCK", "SIG_SETMASK",
    "SIG_UNBLOCK", "alarm", "getitimer", "pause", "pthread_kill", "pthread_sigmask", "setitimer", "siginterrupt",
    "sigpending", "sigtimedwait", "sigwait", "sigwaitinfo",
]  # fmt: skip

ABSENT: dict[str, list[str]] = {
    "os": OS,
    "signal": SIGNAL,
    "socket": ["AF_UNIX", "SO_REUSEPORT", "sethostname"],
    "time": ["CLOCK_MONOTONIC", "CLOCK_PROCESS_CPUTIME_ID", "clock_gettime", "clock_gettime_ns", "tzset"],
}
"""By module, the names that Python does not have on Windows (the standard library's documentation: "Availability")."""


def _ours(namespace: dict[str, Any] | None) -> bool:
    """Whether a namespace is that of a module of Poise."""
    return ((namespace or {}).get("__package__") or "").partition(".")[0] == "poise"


def _seen(name: str, *value: str) -> property:
    """A module's attribute that Poise sees as `value`, or not at all."""

    def get(module: types.ModuleType) -> Any:
        if _ours(sys._getframe(1).f_globals):
            if value:
                return value[0]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return module.__dict__[name]

    def put(module: types.ModuleType, new: Any) -> None:
        module.__dict__[name] = new

    return property(get, put)


def _mask(module: types.ModuleType, absent: list[str], **other: str) -> None:
    members: dict[str, Any] = {name: _seen(name) for name in absent if name in module.__dict__}
    members |= {name: _seen(name, value) for name, value in other.items()}
    module.__class__ = type("Windows", (types.ModuleType,), members)


def _install() -> None:
    really_import, really_find = builtins.__import__, importlib.util.find_spec

    def imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and name.partition(".")[0] in MODULES and _ours(globals):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return really_import(name, globals, locals, fromlist, level)

    def found(name: str, package: str | None = None) -> Any:
        absent = name.partition(".")[0] in MODULES and _ours(sys._getframe(1).f_globals)
        return None if absent else really_find(name, package)

    builtins.__import__ = imported
    importlib.util.find_spec = found
    _mask(sys, [], platform="win32")
    _mask(os, ABSENT["os"], name="nt")
    _mask(signal, ABSENT["signal"])
    _mask(socket, ABSENT["socket"])
    _mask(time, ABSENT["time"])
    # A file opened without an encoding takes the code page of the country there.
    warnings.filterwarnings("error", category=EncodingWarning, module=r"poise\b")


_install()
