"""One module per block type; blocks never import one another."""
