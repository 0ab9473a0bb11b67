"""Variable selection in a table, for people who do not use Python: from reading a file to a report.

`sheet` reads the file, `cells` the numbers in it, and `kinds` tells numbers, categories, dates and identifiers apart;
`table` puts them together. `missing` fills in what is missing, `families` has what differs between targets, `selection`
fits the models, `score` says how well they predict; `page`, `figures` and `files` show the results.
"""
