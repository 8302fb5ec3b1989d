"""Other servers with the same models: each a program that reads a JSON file and prints ``ready: URL``.

``spec.py`` and ``lit_serve.py`` import nothing else of this project, because a peer may live in another environment.
"""
