"""What runs in a process of its own, with torch and transformers: clone, trace, fit, replay."""
