"""The device half's sensors."""
