"""A parent and two children write to one connection in turn, each when the one before has returned."""
import os, socket

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", 7000))
listener.listen(16)
ROUNDS = 300
while True:
    conn, _ = listener.accept()
    pipes = [os.pipe() for _ in range(3)]
    me = 0
    for number in (1, 2):
        if os.fork() == 0:
            me = number
            break
    for turn in range(ROUNDS):
        if me or turn:
            os.read(pipes[me][0], 1)
        conn.sendall(b"%d:%d\n" % (turn, me))
        os.write(pipes[(me + 1) % 3][1], b"x")
    if me:
        os._exit(0)
    os.read(pipes[0][0], 1)
    for _ in range(2):
        os.wait()
    conn.shutdown(socket.SHUT_WR)
    conn.close()
    for pipe in pipes:
        os.close(pipe[0])
        os.close(pipe[1])
