"""Runs a command in a process group of its own and ends the group when standard input closes.

    python serve.py COMMAND ARGUMENT...

vLLM is several processes; killing the first leaves the others. Whoever started this script holds the other
end of its standard input, so all of them end with their parent however that ends.
"""

import os
import signal
import subprocess
import sys
import threading


def main(command):
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def end_with_parent():
        sys.stdin.buffer.read()
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)

    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.exit(server.wait())


if __name__ == "__main__":
    main(sys.argv[1:])
