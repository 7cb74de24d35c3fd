"""What a node is started from: the releases of OpenSearch that are known here, and which of them can be started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.java_artifacts import Jdk, UnavailableError, installed_jdks, resolved_class_path, resolved_zip

FOLDER = Path(__file__).parent
POM = FOLDER / "pom.xml"
CACHE = FOLDER.parents[1] / ".cache" / "opensearch"

LOWEST_JAVA = {"opensearch-2": 11, "opensearch-3": 21}
"""The releases that can be started (profiles of pom.xml), each with the first Java it runs on."""


@dataclass(frozen=True)
class SecuredRelease:
    """A release whose nodes ask for a login.

    :param java: the first Java it runs on
    :param group: the group of the artifact: Elasticsearch's distribution, or OpenSearch's security plugin
    :param artifact: its name
    :param version: its version
    """

    java: int
    group: str
    artifact: str
    version: str


SECURED = {
    "opensearch-2": SecuredRelease(11, "org.opensearch.plugin", "opensearch-security", "2.19.1.0"),
    "elasticsearch-9": SecuredRelease(21, "org.elasticsearch.distribution.integ-test-zip", "elasticsearch", "9.1.0"),
}
"""The releases that can be started with users and passwords. One of OpenSearch is in :data:`LOWEST_JAVA`, too."""


def fitting_jdk(release: str) -> Jdk:
    """Find a JDK that runs a release.

    :param release: one of :data:`LOWEST_JAVA` or :data:`SECURED`
    :raises UnavailableError: there is none
    """
    lowest = LOWEST_JAVA[release] if release in LOWEST_JAVA else SECURED[release].java
    jdks = list(installed_jdks())
    for jdk in jdks:
        if jdk.version >= lowest:
            return jdk
    found = ", ".join(sorted({str(jdk.version) for jdk in jdks})) or "none"
    raise UnavailableError(f"{release} needs a JDK of Java {lowest} or later; found: {found}.")


def startable_releases() -> list[str]:
    """List the releases that have a fitting JDK here."""
    newest = max((jdk.version for jdk in installed_jdks()), default=0)
    return [release for release, java in LOWEST_JAVA.items() if newest >= java]


def startable_secured_releases() -> list[str]:
    """List the releases with users and passwords that have a fitting JDK here."""
    newest = max((jdk.version for jdk in installed_jdks()), default=0)
    return [name for name, release in SECURED.items() if newest >= release.java]


def secured_zip(release: str, jdk: Jdk) -> Path:
    """Resolve the distribution or the security plugin of a release.

    :param release: one of :data:`SECURED`
    :param jdk: runs Maven
    :raises UnavailableError: there is no Maven, or it could not get the artifact
    """
    wanted = SECURED[release]
    return resolved_zip(wanted.group, wanted.artifact, wanted.version, cache=CACHE, jdk=jdk)


def class_path(release: str, jdk: Jdk) -> str:
    """Resolve the Java class path of a release.

    :param release: one of :data:`LOWEST_JAVA`
    :param jdk: runs Maven
    :raises UnavailableError: there is no Maven, or it could not get the artifacts
    """
    return resolved_class_path(release, POM, CACHE, jdk, ["--activate-profiles", release])
