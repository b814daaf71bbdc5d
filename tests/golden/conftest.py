"""The trees below are data: their own tests are for an operator with a model."""

collect_ignore_glob = ["*/adapter/*"]
