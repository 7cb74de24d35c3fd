"""S3Proxy on a loopback port: a server that speaks S3, over a folder of the local disk."""

from __future__ import annotations

import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from scripts.processes import free_port
from tests.java_artifacts import UnavailableError, installed_jdks, resolved_class_path

FOLDER = Path(__file__).parent
CACHE = FOLDER.parents[1] / ".cache" / "s3proxy"
LOWEST_JAVA = 11
START_SECONDS = 240
KEY, SECRET, BUCKET = "key-of-the-tests", "secret-of-the-tests", "bucket"

_SETTINGS = """\
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={key}
s3proxy.credential={secret}
s3proxy.ignore-unknown-headers=true
jclouds.provider=filesystem
jclouds.filesystem.basedir={folder}
"""
_QUIET = '<configuration><root level="OFF"/></configuration>'


@dataclass
class S3Server:
    """
    A server that can be stopped and started again, with the same objects at the same address.

    :param folder: where its files go.
    """

    folder: Path
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _output: IO[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """
        Start it, and wait until it accepts connections.

        :raises UnavailableError: this machine cannot run it.
        """
        java, class_path = _java_and_class_path()
        self.port = self.port or free_port()
        (self.folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        settings, quiet = self.folder / "s3proxy.conf", self.folder / "logback.xml"
        settings.write_text(_SETTINGS.format(port=self.port, key=KEY, secret=SECRET, folder=self.folder / "data"))
        quiet.write_text(_QUIET)
        command = [str(java), f"-Dlogback.configurationFile={quiet}", "-Xmx256m", "-cp", class_path]
        self._output = (self.folder / "output.txt").open("ab")
        self._process = subprocess.Popen(
            [*command, "org.gaul.s3proxy.Main", "--properties", str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        self.stop()
        raise RuntimeError(f"S3Proxy did not start: {(self.folder / 'output.txt').read_text()[-1500:]}")

    def stop(self) -> None:
        """Stop it at once, as a machine that fails."""
        if self._process and self._output:
            self._process.kill()
            self._process.wait()
            self._output.close()
            self._process = self._output = None


def _java_and_class_path() -> tuple[Path, str]:
    jdk = max(installed_jdks(), key=lambda jdk: jdk.version, default=None)
    if jdk is None or jdk.version < LOWEST_JAVA:
        raise UnavailableError(f"S3Proxy needs a JDK of Java {LOWEST_JAVA} or later.")
    return jdk.home / "bin" / "java", resolved_class_path("s3proxy", FOLDER / "pom.xml", CACHE, jdk)
