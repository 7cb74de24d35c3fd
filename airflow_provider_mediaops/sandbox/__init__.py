"""
A stand-in for the three services on one local port, to try DAGs without credentials.

Start it with ``python -m airflow_provider_mediaops.sandbox``, or within a program with
:class:`~airflow_provider_mediaops.sandbox.server.SandboxServer`. It keeps the rules of the services on its own:
nothing in this folder imports the rest of the provider.
"""

from __future__ import annotations
