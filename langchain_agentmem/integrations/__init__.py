"""Other places where a memory is used, and formats that it exchanges."""
