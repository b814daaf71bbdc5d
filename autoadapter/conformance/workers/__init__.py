"""Scripts that run in the engine's interpreter, where torch and transformers are."""
