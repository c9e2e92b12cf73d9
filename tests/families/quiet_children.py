"""Forks a child for each connection, which does what it is told to and ends; then says how that was.

What a child reads or writes is done by it alone, the rest without the engine's knowing of it.
"""
import fcntl, os, socket, sys

NOBODY = 65534

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(16)
while True:
    conn, peer = listener.accept()
    what = conn.recv(100).decode()
    child = os.fork()
    if child == 0:
        if what == "names":
            assert conn.getpeername() == peer
            assert conn.getsockname()[1] == listener.getsockname()[1] == 7000
            assert conn.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
            assert conn.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
            assert conn.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
            assert fcntl.fcntl(conn, fcntl.F_GETFL) & os.O_RDWR
        elif what == "closes":
            listener.close()
            conn.close()
        elif what == "ends":
            sys.exit(0)
        elif what == "becomes nobody":
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        elif what == "writes as nobody":
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            conn.sendall(b"child ")
        elif what == "writes":
            conn.sendall(b"child ")
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    conn.sendall(b"%d" % status)
    conn.close()
