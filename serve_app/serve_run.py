"""``serve run CONFIG`` on a new local cluster: the child process of ``serve_app.server``."""

from __future__ import annotations

import sys

from ray.serve.scripts import cli


def main() -> None:
    """Run Serve's own command; it ends on SIGINT."""
    cli(["run", "--address", "local", sys.argv[1]])


if __name__ == "__main__":
    main()
