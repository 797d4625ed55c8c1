"""What the weeder does to a seed in a storm."""
