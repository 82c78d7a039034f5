"""Every figure of the papers again: run, compared with what is printed, checked, summed up."""
