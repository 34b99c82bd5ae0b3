"""The frontier that reference 003 kept in PostgreSQL, read into ours."""
