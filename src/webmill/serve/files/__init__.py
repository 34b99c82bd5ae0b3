"""Files as they are: published versions, and the public files of a crawl."""
