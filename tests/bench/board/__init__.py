"""Reports from boards."""
