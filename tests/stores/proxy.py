"""What stands between a client and a server and can cut the line."""

import contextlib
import socket
import threading


class Proxy:
    """Hands on what comes to a port of its own, until it is told to stop.

    Parameters
    ----------
    target : (host, port) or str
        Where the server is; a str is the path of a socket.

    Attributes
    ----------
    port : int
    passed : int
        How often a client has sent something.
    """

    def __init__(self, target):
        self._target, self._lock, self._lines = target, threading.Lock(), []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.passed, self._left, self._for_good, self._gone = 0, None, False, False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, after, *, for_good):
        """Cut all lines after clients have sent so often; for good, or they may come again."""
        with self._lock:
            self._left, self._for_good = after, for_good

    def mend(self):
        """Let them in again."""
        with self._lock:
            self._left, self._gone = None, False

    def close(self):
        self._listener.close()
        self._hang_up()

    def _accept(self):
        with contextlib.suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                if self._gone:
                    client.close()
                    continue
                family = socket.AF_UNIX if isinstance(self._target, str) else socket.AF_INET
                server = socket.socket(family)
                server.connect(self._target)
                self._lines += [client, server]
                for pump, ends in ((self._to_server, (client, server)), (_to, (server, client))):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    def _to_server(self, client, server):
        _to(client, server, self._goes_through)

    def _goes_through(self):
        with self._lock:
            self.passed += 1
            if self._gone:  # who came in while the others were cut off
                return False
            if self._left is None:
                return True
            self._left -= 1
            if self._left >= 0:
                return True
            self._left, self._gone = None, self._for_good
        self._hang_up()
        return False

    def _hang_up(self):
        lines, self._lines = self._lines, []
        for line in lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()


def _to(one, other, goes_through=lambda: True):
    with contextlib.suppress(OSError):
        while (data := one.recv(2**16)) and goes_through():
            other.sendall(data)
    for end in (one, other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
