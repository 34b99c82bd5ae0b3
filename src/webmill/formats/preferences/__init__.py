"""What sites say about how their content may be used, in all the forms in which they say it, and what follows from it.

    statements = read_response_preferences(headers) + read_page_preferences(payload)
    decide("training", statements).outcome

Any bytes are an answer: what is not understood is kept as an unknown statement, or is none.
"""
