"""Quality of replay: pages in a browser that the archive alone feeds, and as the replay server shows them."""
