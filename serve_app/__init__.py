"""From a configuration file to Serve applications: models, gateway, HTTP, command line."""
