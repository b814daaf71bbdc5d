"""The trees below are data: their own tests are for whoever has vLLM and a checkpoint."""

collect_ignore_glob = ["*/tests/*"]
