"""Runs the program as in a pod: `python -P bench/perf/pod.py FOLDER prober …`, its ServiceAccount mounted at FOLDER.

With a kubeconfig it would load kubernetes_asyncio, which no pod does: 36 MiB.
"""

import sys
from pathlib import Path

from app.__main__ import run
from app.core.kube.seed_api import FileCredentials

if __name__ == "__main__":
    load = FileCredentials.in_cluster.__func__  # type: ignore[attr-defined]
    load.__defaults__ = (Path(sys.argv[1]),)
    sys.exit(run(sys.argv[2:]))
