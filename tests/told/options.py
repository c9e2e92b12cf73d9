"""Sets options that the engine has not got: on sockets that connect and listen, and on those that do. Asks for urgent
data."""
import errno, socket, sys

own, peer, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
SO_MARK, SO_ATTACH_REUSEPORT_CBPF, IP_MINTTL, TCP_WINDOW_CLAMP = 36, 51, 21, 10
PROGRAM = bytes(16)


def attempt(socket, *option):
    try:
        socket.setsockopt(*option)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]


def urgent(call, *arguments):
    try:
        call(*arguments, socket.MSG_OOB)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]


def listening(port, *options):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for option in options:
        print(attempt(listener, *option), flush=True)
    listener.bind((own, port))
    listener.listen(8)
    return listener


offloaded = listening(7000, (socket.IPPROTO_TCP, TCP_WINDOW_CLAMP, 100000))
kernels = listening(7001, (socket.IPPROTO_IP, IP_MINTTL, 255))
again = listening(7002, (socket.SOL_SOCKET, SO_MARK, 7), (socket.SOL_SOCKET, SO_MARK, 0))
print(attempt(offloaded, socket.IPPROTO_IP, IP_MINTTL, 255), flush=True)
print(attempt(socket.socket(), socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, PROGRAM), flush=True)
marked = socket.socket()
marked.setsockopt(socket.SOL_SOCKET, SO_MARK, 7)
marked.connect((peer, port))
plain = socket.socket()
plain.connect((peer, port))
print(attempt(plain, socket.SOL_SOCKET, SO_MARK, 7), flush=True)
print(urgent(plain.recv, 1), flush=True)
print(urgent(plain.send, b"!"), flush=True)
offloaded.accept()
