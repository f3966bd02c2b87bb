"""The tools that an agent calls, and the strings that it reads."""
