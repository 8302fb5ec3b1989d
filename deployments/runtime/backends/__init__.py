"""What runs blocks on a device: one file per runtime behind one interface (``interface.py``), see ``table.py``."""
