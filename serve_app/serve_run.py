"""``serve run CONFIG`` on a new local cluster: the child process of ``serve_app.server``."""

from __future__ import annotations

import argparse

import ray
from ray.serve.scripts import cli


def main() -> None:
    """Run Serve's own command; it ends on SIGINT."""
    parser = argparse.ArgumentParser(prog="serve_app.serve_run", description=__doc__)
    parser.add_argument("config")
    parser.add_argument("--ray-dashboard", action="store_true", help="start Ray's dashboard as well")
    options = parser.parse_args()
    # The command would start Ray with its dashboard, which takes tenths of a second of processor time at a stretch.
    ray.init(address="local", namespace="serve", include_dashboard=options.ray_dashboard)
    cli(["run", options.config])


if __name__ == "__main__":
    main()
