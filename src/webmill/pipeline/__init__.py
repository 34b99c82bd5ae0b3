"""Where stages are joined, one short file each: to read the project, read this folder."""
