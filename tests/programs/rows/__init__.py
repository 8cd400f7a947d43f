"""What programs are made of: one file an operator family, one row an operator (or a table of alike ones)."""
from rows import casts, complex_numbers, contract, control, conv, create, found, index, inplace, layers, memory, more, pointwise, promotion, reduce, shapes, views  # noqa: F401
