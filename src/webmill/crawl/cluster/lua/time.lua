return string.format('%.6f', crawl_time(ARGV[1], ARGV[2]))
