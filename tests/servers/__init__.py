"""Real servers on the loopback interface, which tests can break and mend at run time."""
