"""What a site publishes for crawlers: robots.txt, sitemaps and feeds."""
