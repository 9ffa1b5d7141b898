"""Which configuration a GPU kernel gets: measured records, or an estimate without a GPU."""
