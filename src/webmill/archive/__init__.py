"""What is made of captures: WARC files, and the WAT and WET files derived from them."""
