"""Writes the pages made from code. Law of this room: no prose that the code does not hold already."""
