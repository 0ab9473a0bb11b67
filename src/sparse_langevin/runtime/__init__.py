"""What the machine provides: compiled code, threads, processes, signals, memory, progress bars, optional packages."""
