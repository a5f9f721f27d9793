"""What the machine tells about itself: board, memory, power, heat. The standard library alone."""
