"""Streams: prompt ids in, one `Step` a token out. Knows no backend's library."""
