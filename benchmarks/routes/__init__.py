"""Three ways to bring a request to the device where it waits least, side by side."""
