"""Starts a program in one of the ways that there are, and waits for it; or fails to become it."""
import os, sys

way, program = sys.argv[1:]
if way == "spawn":
    os.waitpid(os.posix_spawn(program, [program], os.environ), 0)
elif way == "spawn without":
    os.waitpid(os.posix_spawn(program, [program, "600"], {}), 0)
elif way == "fails":
    try:
        os.execve(program, [program], dict(os.environ, LONG="x" * (1 << 24)))
    except OSError as error:
        print(error.strerror, flush=True)
    input()
elif way == "by descriptor":
    os.execve(os.open(program, os.O_RDONLY), [program], os.environ)
elif way == "without":
    os.execve(program, [program], {})
else:
    os.execvp(program, [program])
