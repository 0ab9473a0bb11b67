"""The paper's experiments, one study at a time: records in, tables, figures and claims out."""
