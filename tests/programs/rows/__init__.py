"""What programs are made of: one file an operator family, one row an operator (or a table of alike ones)."""
from rows import casts, complex_numbers, contract, conv, create, found, index, inplace, layers, pointwise, reduce, shapes, views  # noqa: F401
