"""What the pages of each pattern of URLs give: text that is new, or nothing, as the pages of a trap do."""
