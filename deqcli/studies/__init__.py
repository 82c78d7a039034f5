"""Studies: each module holds one object, ``STUDY``, that every door runs (:mod:`deqcli.study`)."""
