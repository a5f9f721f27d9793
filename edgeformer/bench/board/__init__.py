"""A report from somebody's board: everything measured unattended, in parts that survive a cut."""
