"""The file system that Airflow's Amazon provider uses, for the server of the tests."""

from __future__ import annotations

from typing import Any

from tests.stores.s3_server import KEY, SECRET


def s3_files(address: str) -> Any:
    """
    Return a file system on the server of the tests.

    :param address: the server's address.
    """
    import s3fs

    # What newer clients add to each request, servers other than Amazon's do not know.
    checksums = {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    found = s3fs.S3FileSystem(
        key=KEY,
        secret=SECRET,
        endpoint_url=address,
        client_kwargs={"region_name": "us-east-1"},
        # S3Proxy answers a write whose condition does not hold before it has read the body, and then sometimes stops
        # answering on that connection. So each request has one of its own.
        config_kwargs={
            **checksums,
            "connector_args": {"force_close": True, "keepalive_timeout": None},
            # They bound a hang. Nothing is sent twice: a write whose reply is late would meet what it wrote itself.
            "connect_timeout": 240,
            "read_timeout": 240,
            "retries": {"total_max_attempts": 1},
        },
    )
    found.retries = 1
    return found
