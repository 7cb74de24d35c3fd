"""The addresses that the hook of the search cluster asks."""

BASE = "https://cluster.example:9200"
HOT_THREADS = f"{BASE}/_nodes/hot_threads"
STATS = f"{BASE}/_nodes/stats/os,process"
PROBE = f"{BASE}/_nodes/_local/stats/os,process"
PROBED_THREADS = f"{BASE}/_nodes/_local/hot_threads"
