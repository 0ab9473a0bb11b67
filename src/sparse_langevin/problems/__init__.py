"""Problems that surrogates are trained on: each folder is one."""
