"""Files and folders that are never half-written, never overwritten silently, and never read when damaged.

`files` has bytes and locks, `artefact` folders that say what they are, `lines` tables that grow line by line, `archive`
files of arrays that are written piece by piece; `checkpoint` and `runs` are built on them, as are data sets, banks and
models elsewhere. All raise `errors`. `foreign` reads the files of others.
"""
