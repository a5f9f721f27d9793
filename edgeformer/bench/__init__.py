"""What a bundle costs on this machine: measured in fresh processes, told as one JSON document."""
