"""The joints between stages, one short file each: to read the project, start here."""
