"""The most memory that this process has had at once. For children that a test starts."""


def peak_bytes():
    """Not getrusage: its ru_maxrss starts at the size of the parent, which is all of pytest."""
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
