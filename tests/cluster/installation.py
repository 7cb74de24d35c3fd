"""How a node of each kind of server is started: its files, and its command."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.kinds import FOLDER
from tests.cluster.security import secure_elasticsearch, secure_opensearch

if TYPE_CHECKING:
    from tests.cluster.kinds import Kind
    from tests.cluster.security import Authority
    from tests.java_artifacts import Jdk

HEAP = "1g"
# The second compiler of the JVM takes more time at the start of a node than it saves afterwards.
_JVM = ("-XX:TieredStopAtLevel=1", f"-Xmx{HEAP}")
_NOBODY = 65534
# Elasticsearch leaves its standard input alone. This ends it when the input ends, as the Java programs here do.
_UNTIL_INPUT_ENDS = '"$@" </dev/null & node=$!; cat >/dev/null; kill "$node"; wait "$node"'


@dataclass(frozen=True)
class Program:
    """
    What starts a node.

    :param command: the command; it runs until its standard input ends.
    :param logs: the folder in which the node writes the addresses on which it listens.
    :param options: further arguments of :class:`subprocess.Popen`.
    """

    command: list[str]
    logs: Path
    options: dict[str, Any] = field(default_factory=dict)


class Installation:
    """The files that the nodes of one cluster share."""

    def __init__(self, kind: Kind, scratch: Path) -> None:
        self._kind = kind
        self._scratch = scratch
        self._jdk: Jdk = kind.jdk()
        self._class_path = "" if kind.distribution else kind.class_path(self._jdk)
        self._unpacked = scratch / "unpacked"
        if kind.distribution or kind.secured:
            _unpack(kind.zip(self._jdk), self._unpacked)

    def program(self, folder: Path, settings: Mapping[str, str], authority: Authority | None) -> Program:
        """
        Write the files of a node.

        :param authority: signs its certificates; None for a server without users and TLS.
        """
        if self._kind.distribution:
            return self._distribution(folder, settings, authority)
        # The runner of OpenSearch puts the node one folder deeper.
        home = folder / "home"
        own = home if self._kind.is_elasticsearch else home / "node_1"
        java = [str(self._jdk.home / "bin" / "java"), *_JVM, f"-Djava.io.tmpdir={folder}"]
        jars = self._class_path
        # Elasticsearch does not make the folder of its logs.
        (own / "logs").mkdir(parents=True)
        if authority:
            (own / "config").mkdir()
            security = shutil.copytree(self._unpacked / "config", own / "config" / "opensearch-security")
            authority.write_to(own / "config")
            settings = {
                **settings,
                **secure_opensearch(security, authority),
            }
            java.append("-Dnode.plugin=org.opensearch.security.OpenSearchSecurityPlugin")
            jars += f"{os.pathsep}{self._unpacked}/*"
        source = FOLDER / ("ElasticsearchNode.java" if self._kind.is_elasticsearch else "OpenSearchNode.java")
        arguments = [f"{name}={value}" for name, value in settings.items()]
        return Program([*java, "-cp", jars, str(source), str(home), *arguments], own / "logs")

    def _distribution(self, folder: Path, settings: Mapping[str, str], authority: Authority | None) -> Program:
        [home] = self._unpacked.iterdir()
        config = shutil.copytree(home / "config", folder / "config")
        own = {"path.data": str(folder / "data"), "path.logs": str(folder / "logs")}
        if authority:
            authority.write_to(config)
            own |= secure_elasticsearch(config, authority)
        text = "".join(f"{name}: {value}\n" for name, value in {**settings, **own}.items())
        (config / "elasticsearch.yml").write_text(text, encoding="utf-8")
        (folder / "tmp").mkdir()
        environment = {
            **os.environ,
            "ES_JAVA_HOME": str(self._jdk.home),
            "ES_JAVA_OPTS": " ".join((f"-Xms{HEAP}", *_JVM)),
            "ES_PATH_CONF": str(config),
            "ES_TMPDIR": str(folder / "tmp"),
            "HOME": str(folder),
        }
        command = ["bash", "-c", _UNTIL_INPUT_ENDS, "node", str(home / "bin" / "elasticsearch")]
        options = {"env": environment, "cwd": folder, **self._account()}
        return Program(command, folder / "logs", options)

    def _account(self) -> dict[str, Any]:
        """Hand the files to an account that is not root, as which Elasticsearch refuses to run."""
        if os.geteuid() != 0:
            return {}
        for path in (self._scratch, *self._scratch.rglob("*")):
            # A node that runs already removes files of its own.
            with suppress(FileNotFoundError):
                os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
        return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}


def _unpack(file: Path, folder: Path) -> None:
    """Unpack an archive with the permissions of its programs."""
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, folder))
            if not entry.is_dir():
                path.chmod(entry.external_attr >> 16 & 0o777 or 0o644)
