"""One graph of thirty blocks on two engines, each in a process of its own on one core."""
