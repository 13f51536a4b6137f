"""
Our two halves against programs that nobody here wrote, and against programs that are wrong on purpose.
"""
