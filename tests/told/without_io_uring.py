"""Wants a ring, by libc and by liburing's names, before or after it listens without one."""
import ctypes, errno, socket, sys


def listen():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", 7000))
    listener.listen(8)
    return listener


listener = listen() if sys.argv[1] == "after" else None
libc = ctypes.CDLL(None, use_errno=True)
IO_URING_SETUP = 425
parameters = ctypes.create_string_buffer(120)
made = libc.syscall(IO_URING_SETUP, 8, parameters)
print("syscall", made, errno.errorcode.get(ctypes.get_errno()), flush=True)
room = ctypes.create_string_buffer(4096)
for name, arguments in {
    "io_uring_setup": (8, parameters),
    "io_uring_queue_init": (8, room, 0),
    "io_uring_queue_init_params": (8, room, parameters),
    "io_uring_queue_init_mem": (8, room, parameters, room, ctypes.c_size_t(4096)),
}.items():
    made = getattr(libc, name)(*arguments)
    print(name, errno.errorcode.get(-made), flush=True)
listener = listener or listen()
listener.accept()
