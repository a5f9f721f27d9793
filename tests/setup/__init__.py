"""Tests of jetson_setup.sh, on machines that are made of files and small programs."""
