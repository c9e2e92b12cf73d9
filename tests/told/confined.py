"""Serves after it has given up reaching the engine: in a directory of its own, or under a filter of
system calls that has no call to open a connection with. Children of `fork` serve in the directory: none of
them has been to the engine before. Those of `killed` die of any call for sockets and wake-ups, as sshd's do."""
import ctypes, os, resource, select, socket, struct, sys

own, how, directory = sys.argv[1:]
"é".encode("idna")  # what is loaded late is out of reach later
libc = ctypes.CDLL(None, use_errno=True)


def refuse(calls, how):
    LOAD, JUMP_IF_EQUAL, RETURN, ALLOW = 0x20, 0x15, 0x06, 0x7FFF0000
    steps = [(LOAD, 0, 0, 0)]
    for call in calls:
        steps += [(JUMP_IF_EQUAL, 0, 1, call), (RETURN, 0, 0, how)]
    steps += [(RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, FILTER, program, 0, 0) == 0


def serve_killed(connection):
    """Its parent has the connection, too, and only waits. It gives up opening files first: not even poll may
    be asked about more of them then."""
    SOCKET, CONNECT, SENDTO, RECVFROM, SENDMSG, RECVMSG, SOCKETPAIR = 41, 42, 44, 45, 46, 47, 53
    EVENTFD, EPOLL_CREATE, EPOLL_CTL, EPOLL_WAIT, MADVISE, YIELD = 290, 291, 233, 232, 28, 24
    KILL_PROCESS = 0x80000000
    sockets = [SOCKET, CONNECT, SENDTO, RECVFROM, SENDMSG, RECVMSG, SOCKETPAIR]
    os.chroot(directory)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))
    refuse(sockets + [EVENTFD, EPOLL_CREATE, EPOLL_CTL, EPOLL_WAIT, MADVISE, YIELD], KILL_PROCESS)
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.poll()
    first = connection.recv(1)
    connection.sendall(first + connection.recv(100))
    os._exit(0)


if how == "filter":
    CONNECT, EPERM = 42, 0x00050001
    refuse([CONNECT], EPERM)
elif how != "killed":
    os.chroot(directory)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((own, 7000))
listener.listen(8)
while True:
    connection, _ = listener.accept()
    if how == "killed":
        if os.fork() == 0:
            serve_killed(connection)
        os.wait()
    elif how != "fork" or os.fork() == 0:
        connection.sendall(connection.recv(100))
        if how == "fork":
            os._exit(0)
    connection.close()
