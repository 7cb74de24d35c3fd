"""The kinds of servers that the tests run on, and the published artifacts that each is started from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.java_artifacts import Jdk, UnavailableError, installed_jdks, resolved_class_path, resolved_zip

FOLDER = Path(__file__).parent
POM = FOLDER / "pom.xml"
CACHE = FOLDER.parents[1] / ".cache" / "cluster"


@dataclass(frozen=True)
class Kind:
    """
    One kind of server.

    :param product: ``opensearch`` or ``elasticsearch``, which is also the profile of pom.xml.
    :param java: the versions of Java that it runs on.
    :param secured: whether it has users with passwords, and speaks TLS.
    :param distribution: whether it is started from a whole distribution, not from a class path.
    :param wants_client_certificate: whether it talks only to clients that show a certificate.
    :param is_like_sandbox: whether the sandbox answers as it does.
    :param has_known_load: whether it is asked who is behind its hot threads; one of each kind that answers differently.
    """

    product: str
    version: str
    java: range
    secured: bool = False
    distribution: bool = False
    wants_client_certificate: bool = False
    is_like_sandbox: bool = False
    has_known_load: bool = False

    def __str__(self) -> str:
        return f"{self.product}-{'.'.join(self.version.split('.')[:2])}{'-secured' if self.secured else ''}"

    @property
    def is_elasticsearch(self) -> bool:
        """Whether the product is Elasticsearch."""
        return self.product == "elasticsearch"

    def jdk(self) -> Jdk:
        """Find a JDK that it runs on."""
        jdks = list(installed_jdks())
        for jdk in jdks:
            if jdk.version in self.java:
                return jdk
        found = ", ".join(sorted({str(jdk.version) for jdk in jdks})) or "none"
        raise UnavailableError(f"{self} needs a JDK of Java {self.java.start} or later; found: {found}.")

    def class_path(self, jdk: Jdk) -> str:
        """Resolve the class path of a node."""
        options = ["--activate-profiles", self.product, f"-Dserver.version={self.version}"]
        return resolved_class_path(f"{self.product}-{self.version}", POM, CACHE, jdk, options)

    def zip(self, jdk: Jdk) -> Path:
        """Resolve the distribution of Elasticsearch, or the security plugin of OpenSearch."""
        group, artifact = (
            ("org.elasticsearch.distribution.integ-test-zip", "elasticsearch")
            if self.is_elasticsearch
            else ("org.opensearch.plugin", "opensearch-security")
        )
        return resolved_zip(group, artifact, self.version, cache=CACHE, jdk=jdk)


_NEWEST = 99
#: In the order in which they run. The security plugin is not published for the newest OpenSearch.
KINDS = (
    Kind("opensearch", "3.8.0.0", range(21, _NEWEST), has_known_load=True),
    Kind(
        "opensearch",
        "2.19.1.0",
        range(11, _NEWEST),
        secured=True,
        wants_client_certificate=True,
        is_like_sandbox=True,
        has_known_load=True,
    ),
    Kind("elasticsearch", "7.17.28", range(11, 22)),
    Kind(
        "elasticsearch",
        "8.19.0",
        range(17, _NEWEST),
        secured=True,
        distribution=True,
        wants_client_certificate=True,
    ),
    Kind(
        "elasticsearch",
        "9.1.0",
        range(21, _NEWEST),
        secured=True,
        distribution=True,
        has_known_load=True,
    ),
)
