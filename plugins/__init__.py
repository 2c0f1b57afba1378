"""What is true: families, capabilities, tools, and the manager that loads them. No HTTP code here."""
