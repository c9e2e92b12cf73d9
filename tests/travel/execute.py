"""A server as inetd is: each connection is the standard input and output of a program. The first line
names it: `cat`, `python` (this file again), `twice` (a shell that runs a pipeline), or `fails`, where
there is no such program and the server itself answers. The others are ways to start one through libc."""

import ctypes
import errno
import os
import select
import signal
import socket
import sys

if len(sys.argv) > 1:
    # It writes from where it was told, and reads what the server left.
    stream = socket.socket(fileno=0)
    timeout = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    stream.sendall(b"%d %d " % (stream.getpeername()[1], timeout))
    sys.stdout.buffer.write(sys.stdin.buffer.read())
    sys.stdout.flush()
    sys.exit()

# A file that may be executed and is no program.
BROKEN = os.path.join(os.environ["SCRATCH"], "broken")
with open(BROKEN, "w") as broken:
    broken.write("no program")
os.chmod(BROKEN, 0o755)

PROGRAMS = {
    b"cat": ["/bin/cat"],
    b"python": [sys.executable, __file__, "again"],
    b"twice": ["/bin/sh", "-c", "/bin/cat | /bin/cat; echo end"],
    b"fails": [BROKEN],
}

LIBC = ctypes.CDLL(None)
LIBC.popen.restype = ctypes.c_void_p

# glibc has it from 2.39 on, and this with it. Without it the error is that of a kernel that cannot do it.
HAS_PIDFD_SPAWN = hasattr(LIBC, "posix_spawnattr_setcgroup_np")
if not HAS_PIDFD_SPAWN:
    for name in ("pidfd_spawn", "pidfd_spawnp"):
        failed = getattr(LIBC, name)(None, b"cat", None, None, None, None)
        assert failed == errno.ENOSYS, failed


def spawned(connection, spawn, path, environment):
    """It is closed on exec, and only what is made of it is there."""
    actions = [(os.POSIX_SPAWN_DUP2, connection.fileno(), number) for number in (0, 1)]
    os.waitpid(spawn(path, ["cat"], environment, file_actions=actions), 0)
    connection.sendall(b"spawned\n")


def system(connection):
    status = os.system("cat; exit 3")
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def popen(connection):
    stream = LIBC.popen(b"cat; exit 4", b"r")
    buffer = ctypes.create_string_buffer(65536)
    while length := LIBC.fread(buffer, 1, len(buffer), ctypes.c_void_p(stream)):
        connection.sendall(buffer.raw[:length])
    status = LIBC.pclose(ctypes.c_void_p(stream))
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def by_descriptor(connection):
    """pidfd_spawn, which glibc has from 2.39 on. Without it nothing is started, and a ticket would be nobody's."""
    if not HAS_PIDFD_SPAWN:
        os.execv("/bin/sh", ["sh", "-c", "cat; echo spawned"])
    child = ctypes.c_int()
    words = (ctypes.c_char_p * 2)(b"cat", None)
    environment = (ctypes.c_char_p * 1)(None)
    actions = ctypes.create_string_buffer(1024)
    LIBC.posix_spawn_file_actions_init(actions)
    for number in (0, 1):
        LIBC.posix_spawn_file_actions_adddup2(actions, connection.fileno(), number)
    for name, file in ((b"pidfd_spawn", b"/bin/cat"), (b"pidfd_spawnp", b"cat")):
        spawn = getattr(LIBC, name.decode())
        failed = spawn(ctypes.byref(child), file, actions, None, words, environment)
        assert failed == 0, failed
        select.select([child.value], [], [])
        os.close(child.value)
    connection.sendall(b"spawned\n")


def execle(_):
    environment = (ctypes.c_char_p * 2)(b"WORD=word", None)
    LIBC.execle(b"/bin/sh", b"sh", b"-c", b"cat; echo $WORD", None, environment)


# Of those by exec, the words stand in registers and on the stack.
WAYS = {
    b"posix_spawn": lambda it: spawned(it, os.posix_spawn, "/bin/cat", os.environ),
    b"posix_spawnp": lambda it: spawned(it, os.posix_spawnp, "cat", {}),
    b"pidfd_spawn": by_descriptor,
    b"system": system,
    b"popen": popen,
    b"execl": lambda _: LIBC.execl(b"/bin/sh", b"sh", b"-c", b"cat; echo $0 $4", *WORDS, None),
    b"execlp": lambda _: LIBC.execlp(b"sh", b"sh", b"-c", b"cat; echo $0 $4", *WORDS, None),
    b"execle": execle,
}
WORDS = [b"zero", b"one", b"two", b"three", b"four", b"five"]

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server(("", 7000), backlog=512)
while True:
    connection, _ = listener.accept()
    if os.fork():
        connection.close()
        continue
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
    line = b""
    while not line.endswith(b"\n"):
        line += connection.recv(1)
    if way := WAYS.get(line.strip()):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not line.startswith(b"posix"):
            for number in (0, 1):
                os.dup2(connection.fileno(), number)
        way(connection)
        os._exit(0)
    for number in (0, 1):
        os.dup2(connection.fileno(), number)
    program = PROGRAMS[line.strip()]
    try:
        os.execv(program[0], program)
    except OSError as error:
        connection.sendall(b"errno %d " % error.errno)
        while data := connection.recv(65536):
            connection.sendall(data)
    os._exit(0)
