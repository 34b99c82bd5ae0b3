"""What a find counts for, in all engines; one in the text: 1."""

TITLE, URL = 3.0, 0.5
TOGETHER = 2.0  # more, for words that were typed one after the other and stand so
FORM = 0.8  # of another form of the word
