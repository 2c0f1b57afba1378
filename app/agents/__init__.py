"""Agents: one model turn, the pure tool loop and the driver that performs what the loop decides."""
