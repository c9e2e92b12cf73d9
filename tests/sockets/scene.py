"""Two ends of some connections, each brought into a state of its own and left there.

    scene.py server ADDRESS ADDRESS6
    scene.py client ADDRESS ADDRESS6

The client's ports say what becomes of a connection; the server does what the first byte says. Both stay until
they are killed. The client's side says "ready" when all is as it is to be, but for what the server's side has
still to hear of.
"""
import select
import socket
import subprocess
import sys
import time

side, address, address6 = sys.argv[1:4]


def listener(family, host, port, backlog, only_ipv6=False):
    s = socket.socket(family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(only_ipv6))
    s.bind((host, port))
    s.listen(backlog)
    return s


def serve():
    accepting = [
        listener(socket.AF_INET, address, 80, 5),
        listener(socket.AF_INET6, address6, 8080, 7),
        listener(socket.AF_INET6, "::", 443, 9),
        listener(socket.AF_INET, "0.0.0.0", 8443, 3),
        listener(socket.AF_INET6, "::", 8444, 2, only_ipv6=True),
    ]
    # Nobody accepts here.
    waiting = listener(socket.AF_INET, address, 81, 4)
    print("listens", flush=True)
    kept = [waiting]
    watched = list(accepting)
    while True:
        for s in select.select(watched, [], [])[0]:
            if s in accepting:
                watched.append(s.accept()[0])
                continue
            act = s.recv(1)
            # Of those who have more to say, later.
            if act not in (b"s",):
                watched.remove(s)
            kept.append(s)
            if act == b"k":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            elif act == b"f":
                s.shutdown(socket.SHUT_WR)
            elif act == b"g":
                s.sendall(b"seven..")
            elif act in (b"t", b"1"):
                kept.remove(s)
                s.close()
            elif act == b"l":
                while s.recv(100):
                    pass
                kept.remove(s)
                s.close()
            elif act == b"c":
                # It knows of the end, and keeps the connection.
                while s.recv(100):
                    pass


def connection(port, to, first):
    s = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", port))
    s.connect(to)
    s.sendall(first)
    return s


def hears_nothing(port):
    """What comes to a port of the client's is lost from now on."""
    rule = ["-A", "INPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP"]
    subprocess.run(["iptables-legacy", "-w", *rule], check=True)


def settled(s):
    """What was sent has been acknowledged: what the server says to it, it has said."""
    TIOCOUTQ = 0x5411
    import fcntl
    import struct

    while struct.unpack("i", fcntl.ioctl(s, TIOCOUTQ, b"\0\0\0\0"))[0]:
        time.sleep(0.01)


def connect():
    web, other = (address, 80), (address, 8443)
    kept = [
        connection(40001, web, b"k"),
        connection(40002, web, b"u0123456789"),
        connection(40006, (address6, 8080), b"e"),
        connection(40007, (address, 443), b"e"),
        connection(40016, (address6, 443), b"e"),
        connection(40014, other, b"e"),
        connection(40008, (address, 81), b""),
        connection(40009, (address, 81), b"abc"),
    ]
    half = connection(40003, web, b"c")
    half.shutdown(socket.SHUT_WR)
    kept.append(half)
    ended = connection(40004, web, b"f")
    assert ended.recv(1) == b""
    kept.append(ended)
    closed = connection(40005, web, b"t")
    assert closed.recv(1) == b""
    closed.close()
    # Those that the server's segments do not reach any more.
    for port, act in ((40010, b"g"), (40012, b"l"), (40013, b"1")):
        deaf = connection(port, web, b"s")
        settled(deaf)
        hears_nothing(port)
        deaf.sendall(act)
        if act == b"l":
            deaf.shutdown(socket.SHUT_WR)
        kept.append(deaf)
    hears_nothing(40011)
    half_open = socket.socket()
    half_open.bind(("", 40011))
    half_open.setblocking(False)
    half_open.connect_ex(web)
    kept.append(half_open)
    print("ready", flush=True)
    time.sleep(3600)


serve() if side == "server" else connect()
