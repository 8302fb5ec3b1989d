"""``python -m serve_app doctor``: what is right and what is wrong with this machine and a configuration."""
