"""Tables, pictures and pages of benchmark documents. Python 3.6; pictures need matplotlib."""
