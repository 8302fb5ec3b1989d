"""Python clients: numpy arrays in, numpy arrays out, over HTTP or over the handles of a Ray cluster.

All four have the same ``infer`` and raise the same errors (``serve_app.client.errors``). ``HttpClient`` and
``AsyncHttpClient`` need no Ray; the clients over handles are in ``serve_app.client.handles``, which does.
"""

from serve_app.client.http import AsyncHttpClient, HttpClient

__all__ = ["AsyncHttpClient", "HttpClient"]
