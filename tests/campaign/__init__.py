"""A campaign against the commands: kills, signals, full disks, damage, hostile files; ``make faults``."""
