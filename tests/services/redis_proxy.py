"""A wire to Redis that loses answers: the server has done the work, the client is cut off before it hears of it."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit


class Proxy:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (str(parts.hostname), int(parts.port or 6379))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}{parts.path}"
        self.spare, self.lose = 0, 0  # after so many answers so many are lost, of requests with the mark
        self.mark = b""
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()

    def serve(self) -> None:
        self._listening.settimeout(0.1)
        while not self._over.is_set():
            try:
                client, _ = self._listening.accept()
            except TimeoutError:
                continue
            thread = threading.Thread(target=self._connect, args=(client,))
            thread.start()
            self._threads.append(thread)
        self._listening.close()

    def close(self) -> None:
        self._over.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(100)

    def _connect(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(self._server)
            except OSError:
                return
            with server:
                try:
                    self._carry(client, server)
                except OSError:
                    return

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        asked, was_asking = b"", False
        while not self._over.is_set():
            ready, _, _ = select.select([client, server], [], [], 0.1)
            for source in ready:
                data = source.recv(1 << 16)
                if not data:
                    return
                if source is client:
                    asked = (b"" if not was_asking else asked) + data
                    was_asking = True
                    server.sendall(data)
                    continue
                if was_asking and self.lose and self.mark in asked:
                    if not self.spare:
                        self.lose -= 1
                        return
                    self.spare -= 1
                was_asking = False
                client.sendall(data)


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    proxy = Proxy(url)
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(100)
        proxy.join()
