"""The command in a process of its own, forked from one that has imported what commands need.

Starting Python and importing takes 2.5 s, forking 0.1 s. Run as a script, this file is the command:
it hands its arguments, folder, variables and open files to the process that forks, and ends with
the exit code of the forked one. It hands on signals, but for SIGKILL.
"""

import json
import os
import signal
import socket
import sys


def serve(listening):
    """Return in a forked process for every command; end when standard input does."""
    import select

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for commands
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        connection, _ = listening.accept()
        if os.fork() == 0:
            break
        connection.close()
    else:
        sys.exit()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listening.close()
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    with connection, connection.makefile() as message:
        folder, variables, arguments = json.loads(message.readline())
        if child := os.fork():
            connection.sendall(b"%d\n" % child)
            os.closerange(0, 3)
            for file in files:
                os.close(file)
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            connection.sendall(b"%d\n" % ended)
            os._exit(0)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # Made anew, as other kinds of files may be behind the numbers now.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["pril", *arguments]


def ask(path, arguments):
    """Have a command run; return its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [b"\0"], [0, 1, 2])
        message = json.dumps([os.getcwd(), dict(os.environ), arguments])
        connection.sendall(f"{message}\n".encode())
        os.closerange(0, 3)
        with connection.makefile() as answer:
            child = int(answer.readline())
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: os.kill(child, number))
            return int(answer.readline())


if __name__ == "__main__" and sys.argv[1] == "serve":
    import atexit
    import contextlib

    import matplotlib.figure  # noqa: F401

    import pril.io
    import pril.plotting
    import pril.tables.stream
    import pril.tables.training
    from pril.cli import printing
    from pril.cli.main import main
    from pril.online.compile_time import compile_time

    compile_time.was_told, printing.FIRST_SECONDS = True, 1e6
    pril.OrderedLogit().fit([[0.0], [1.0]], [1, 2]).predict([[0.0]])  # loads compiled code
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(None):
        main(["fit", "--help"])  # what is imported as options are read
    serve(socket.socket(fileno=int(sys.argv.pop())))
    try:
        main()
    except SystemExit as ended:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(ended.code)  # freeing what was inherited takes half the time of a command
elif __name__ == "__main__":
    os._exit(ask(sys.argv[1], sys.argv[2:]))
