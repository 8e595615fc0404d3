"""Large jobs: files of any size become Gaussians, in units that survive a kill, by one process or many."""

from sen2pro.jobs.engines import Engine, InProcess, Processes
from sen2pro.jobs.run import Summary, encode_files, shards_for

__all__ = ["Engine", "InProcess", "Processes", "Summary", "encode_files", "shards_for"]
