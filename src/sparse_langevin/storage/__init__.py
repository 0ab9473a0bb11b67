"""Files and folders that are never half-written, never overwritten silently, and never read when damaged."""
