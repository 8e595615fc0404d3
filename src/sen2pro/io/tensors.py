"""Former names of the safetensors functions of `bundle`."""

from sen2pro.io.bundle import Expected as Expected
from sen2pro.io.bundle import read_arrays as read
from sen2pro.io.bundle import read_header as read_header
from sen2pro.io.bundle import write_arrays as write

__all__ = ["Expected", "read", "read_header", "write"]
