"""TensorRT engines of a bundle: made on the device that runs them, never copied between boards."""
