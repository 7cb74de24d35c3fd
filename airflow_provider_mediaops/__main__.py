"""``python -m airflow_provider_mediaops``: the commands of ``airflow mediaops`` without Airflow's command line."""

from __future__ import annotations

import sys

from airflow_provider_mediaops.cli.run import main

if __name__ == "__main__":
    sys.exit(main())
