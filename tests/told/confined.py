"""Serves after it has given up reaching the engine: in a directory of its own, or under a filter of
system calls that has no call to open a connection with. Children of `fork` serve in the directory: none of
them has been to the engine before."""
import ctypes, os, socket, struct, sys

own, how, directory = sys.argv[1:]
"é".encode("idna")  # what is loaded late is out of reach later
libc = ctypes.CDLL(None, use_errno=True)


def refuse_to_connect():
    LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
    CONNECT, EPERM, ALLOW = 42, 0x00050001, 0x7FFF0000
    steps = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, CONNECT), (RETURN, 0, 0, EPERM), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, FILTER, program, 0, 0) == 0


if how != "filter":
    os.chroot(directory)
else:
    refuse_to_connect()
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((own, 7000))
listener.listen(8)
while True:
    connection, _ = listener.accept()
    if how != "fork" or os.fork() == 0:
        connection.sendall(connection.recv(100))
        if how == "fork":
            os._exit(0)
    connection.close()
