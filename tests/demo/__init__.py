"""The demo: a change lands in a GitHub on localhost, and the hub proves it. It imports nothing of the four rooms."""
