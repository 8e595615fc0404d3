"""Large jobs: files of any size become Gaussians, in shards that survive a kill, by one process or several."""

from sen2pro.jobs.encode_files import Summary, encode_files, shards_for

__all__ = ["Summary", "encode_files", "shards_for"]
