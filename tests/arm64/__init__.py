"""The Nano's instruction set: bundles and the device half's own tests under qemu's Cortex-A57.

qemu traps instructions that this CPU lacks, so a pass says that the libraries and we use none of
those. It says nothing about speed, nor about faults of the silicon or of a kernel.
"""
